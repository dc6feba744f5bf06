// The result in one file, written by all ranks.
#include "mpi/output/one_file.hpp"

#include <algorithm>

namespace spmm::mpi {

RangeOrder OneFileOutput::order() const {
  const auto num_ranks = static_cast<std::uint32_t>(ranks_.size());
  return {.num_ranks = num_ranks, .num_owners = num_ranks};
}

void OneFileOutput::start(const Division& division, const MatrixHeader& header) {
  header_ = header;
  range_bytes_ = division.max_c_blocks * output_record_bytes(header.m);
  rounds_ = std::make_unique<RoundSink>(ranks_, file_, division, header.m, limit_bytes_);
}

std::uint64_t OneFileOutput::kept_bytes() const {
  return std::min(limit_bytes_, RoundSink::kNumRanges * range_bytes_);
}

void OneFileOutput::close_here() {
  if (ranks_.rank() != 0) file_.flush();
}

void OneFileOutput::make_visible() {
  header_.num_blocks = static_cast<std::uint32_t>(num_blocks());
  file_.finish(header_, rounds_->end());
  file_.publish();
}

std::uint64_t OneFileOutput::num_blocks() const {
  return (rounds_->end() - kHeaderBytes) / output_record_bytes(header_.m);
}

std::uint64_t OneFileOutput::own_num_blocks() const {
  return rounds_->own_bytes() / output_record_bytes(header_.m);
}

}  // namespace spmm::mpi
