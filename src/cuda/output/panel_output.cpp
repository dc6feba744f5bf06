#include "cuda/output/panel_output.hpp"

#include <utility>

#include "base/records/errors.hpp"

namespace spmm::cuda {

void OnlyOutput::begin(std::size_t, std::uint64_t num_blocks) {
  num_blocks_ += num_blocks;
  check_num_output_blocks(num_blocks_);
}

void OnlyOutput::append(std::size_t, std::span<const std::byte> records, Release release) {
  const std::uint64_t first_block = next_block_;
  next_block_ += records.size() / record_bytes_;
  sink_.write(first_block, records, std::move(release));
}

}  // namespace spmm::cuda
