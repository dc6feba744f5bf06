// A proof that one file is the product of two others.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/run/run.hpp"
#include "spmm/options.hpp"
#include "verify/proof.hpp"

namespace spmm::tools {

struct VerifyFilesOptions {
  bool any_order = false;                ///< blocks of C in any order
  bool allow_zero_blocks = false;        ///< of C
  ProductOptions product{};              ///< transposes, rows and selection that C was made with
  std::uint64_t key = 0;                 ///< of the random numbers; 0 = those of the system
  std::uint64_t memory_limit_bytes = 0;  ///< 0 = none
  NoticeFn on_notice{};                  ///< may be empty
};

/// Memory: for A, B and with any_order C, one after the other, what check_blocks() takes, in addition to
/// what the proof takes within the limit. Errors: FormatError (an operand or C breaks the format), ShapeError,
/// InputError, IoError, OutOfMemory, Interrupted.
ProofResult verify_files(const std::filesystem::path& a, const std::filesystem::path& b, const std::filesystem::path& c,
                         const VerifyFilesOptions& options, const Run& run);

}  // namespace spmm::tools
