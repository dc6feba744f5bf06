// A folder with good and bad files, and the spmm program run inside it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "spmm/block_matrix.hpp"
#include "support/process.hpp"

namespace spmm::test {

/// A fresh folder that is the working directory while the object lives, with the operands a.bin and b.bin
/// (n 64, m 4) and an earlier output old.bin.
class Workplace {
 public:
  Workplace();

  /// Adds the files that spmm must refuse.
  void add_bad_files();

  [[nodiscard]] const BlockMatrix& a() const { return a_; }
  [[nodiscard]] const BlockMatrix& b() const { return b_; }

 private:
  WorkingFolder folder_;
  BlockMatrix a_;
  BlockMatrix b_;
};

inline constexpr const char* kOldContent = "the output of an earlier run";

/// Path of the program under test, and its arguments.
std::vector<std::string> spmm_words(const std::vector<std::string>& arguments);

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Runs the program with these arguments and SPMM_ variables.
ProcessResult spmm_command(const std::vector<std::string>& arguments, const Variables& variables = {});

}  // namespace spmm::test
