// The most blocks that a header can name. A file of its own: tests of the limit put another function in its place.
#include <limits>

#include "base/records/errors.hpp"

namespace spmm {

std::uint64_t max_output_blocks() {
  return std::numeric_limits<std::uint32_t>::max();
}

}  // namespace spmm
