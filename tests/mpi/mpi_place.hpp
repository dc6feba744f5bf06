// A folder in which spmm-mpi runs with several ranks.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "spmm/block_matrix.hpp"
#include "support/process.hpp"

namespace spmm::test {

using Variables = std::vector<std::pair<std::string, std::string>>;

inline constexpr const char* kOld = "the output of an earlier run";

/// Against hangs only: a launch takes a second where nothing else runs.
inline constexpr std::chrono::seconds kPatience{300};

/// mpirun with its arguments for any machine and user, then spmm-mpi; with variables, the one that reads them
/// (products/mpi_fault.hpp).
std::vector<std::string> mpi_words(int num_ranks, const std::vector<std::string>& arguments,
                                   const Variables& variables = {});

ProcessResult run_ranks(int num_ranks, const std::vector<std::string>& arguments, const Variables& variables = {});

/// Many products in one launch, which takes longer than a small product. Their operands and results lie in the working
/// folder under separate names.
class ProductList {
 public:
  /// How a product is run: "key=value" words of mpi-products, but for its files.
  using How = std::vector<std::string>;

  /// Writes operands, and the product as spmm writes it. Returns the words for them.
  How add_operands(const BlockMatrix& a, const BlockMatrix& b);
  void add(const How& operands, const How& how);
  /// Runs what was added, on so many ranks, and forgets it; fails the test where a product is wrong, or leaves
  /// something in the folder.
  void run(int num_ranks, const Variables& variables = {});

 private:
  std::size_t num_operands_ = 0;
  std::string lines_;
};

/// Lines of the program itself: the launcher adds its own.
std::vector<std::string> own_messages(const std::string& err);

/// A fresh folder that is the working directory while it lives.
class MpiPlace {
 public:
  /// Writes x.bin, y.bin, and the product as spmm writes it to expected.bin; removes z.bin.
  void set_operands(const BlockMatrix& a, const BlockMatrix& b) const;

 private:
  WorkingFolder folder_;
};

/// Processes that run spmm-mpi with this output as their last argument.
std::vector<int> ranks_running(const std::string& out);

/// The process among them that has stopped itself (SPMM_MPI_FAULT=stop-write:R:N); -1 where none has, for minutes.
int wait_for_stopped(const std::string& out);

/// Of a process that Open MPI has started; -1 where it has gone.
int rank_of(int pid);

}  // namespace spmm::test
