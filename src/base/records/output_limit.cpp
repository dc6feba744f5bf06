// The most blocks that a header can name. A separate file: tests of the limit replace the function.
#include <limits>

#include "base/records/errors.hpp"

namespace spmm {

std::uint64_t max_output_blocks() {
  return std::numeric_limits<std::uint32_t>::max();
}

}  // namespace spmm
