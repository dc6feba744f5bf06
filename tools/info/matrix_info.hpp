// What one pass over a matrix file tells about it, and two files about their product.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/common/matrix_file.hpp"

namespace spmm::tools {

/// How many blocks a block row (or column) has, for all that have some: index and count, by index.
using IndexCounts = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

struct MatrixInfo {
  std::string name;
  MatrixHeader header;
  std::uint64_t num_blocks = 0;
  ElementType type = ElementType::u16;
  std::uint64_t file_bytes = 0;
  bool sorted = true;             ///< records lie in the order of (i, j), none twice
  std::uint64_t zero_blocks = 0;  ///< stored blocks without a non-zero element
  std::uint64_t nonzero_elements = 0;
  std::uint32_t largest_element = 0;
  std::uint64_t saturated_elements = 0;  ///< of a result: those at the limit
  IndexCounts rows{};
  IndexCounts columns{};
};

/// Reads a whole file.
/// Memory: a few MB per thread; for rows and columns each 8 bytes for each one that has blocks, and while it is read
/// 4 for each there is, or 4 for each block if that is less.
/// Errors: InputError, FormatError (an index out of range; a block stored twice is not looked for), IoError,
/// Interrupted.
MatrixInfo read_info(const std::filesystem::path& path, std::optional<ElementType> type, unsigned num_threads);

/// The product of two matrices as far as the places of their blocks and their largest elements tell.
struct ProductInfo {
  std::uint64_t pairs = 0;            ///< block products, exact
  std::uint64_t expected_blocks = 0;  ///< result blocks if the pairs fall anywhere
  std::uint64_t max_blocks = 0;       ///< result blocks at most
  std::uint64_t expected_bytes = 0;   ///< output file with expected_blocks
  std::uint64_t max_bytes = 0;        ///< output file with max_blocks
  /// Pairs of a result block below which none of its elements reaches the limit; 2^64 - 1 if no number suffices.
  std::uint64_t saturating_pairs = 0;
  std::uint64_t max_saturated_elements = 0;  ///< elements at the limit at most; 0: none can saturate
};

/// Errors: ShapeError if n or m differ.
ProductInfo predict_product(const MatrixInfo& a, const MatrixInfo& b);

}  // namespace spmm::tools
