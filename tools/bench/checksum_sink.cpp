// A sink that keeps a checksum of the records alone.
#include "tools/bench/checksum_sink.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/run/parallel.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

constexpr std::uint64_t kWordBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 18;

/// The finalizer of splitmix64.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBu;
  return x ^ (x >> 31);
}

/// Words are keyed by their place and added up: threads may add in any order.
std::uint64_t sum_of_record(const std::byte* record, std::uint64_t record_bytes, std::uint64_t first_word) {
  constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15u;
  std::uint64_t sum = 0;
  std::uint64_t key = (first_word + 1) * kOdd;
  for (std::uint64_t at = 0; at < record_bytes; at += kWordBytes, key += kOdd) {
    std::uint64_t word = 0;
    std::memcpy(&word, record + at, std::min(kWordBytes, record_bytes - at));
    sum += mixed(mixed(key) ^ word);
  }
  return sum;
}

}  // namespace

ChecksumSink::ChecksumSink(std::uint32_t m, unsigned num_threads)
    : record_bytes_(output_record_bytes(m)), num_threads_(num_threads) {}

void ChecksumSink::write(std::uint64_t first_block, std::span<const std::byte> records, Release) {
  const std::uint64_t count = records.size() / record_bytes_;
  const std::uint64_t words_each = (record_bytes_ + kWordBytes - 1) / kWordBytes;
  std::atomic<std::uint64_t> sum{0};
  parallel_for(num_threads_, count, std::max<std::uint64_t>(1, kPieceBytes / record_bytes_),
               [&](std::uint64_t begin, std::uint64_t end) {
                 std::uint64_t part = 0;
                 for (std::uint64_t r = begin; r < end; ++r) {
                   part +=
                       sum_of_record(records.data() + r * record_bytes_, record_bytes_, (first_block + r) * words_each);
                 }
                 sum += part;
               });
  checksum_.sum += sum;
  checksum_.num_blocks += count;
}

void ChecksumSink::finish(const MatrixHeader& header) {
  if (header.num_blocks == checksum_.num_blocks) return;
  throw IoError("checksum", "the header announces another number of blocks than there were", "report this as a bug");
}

}  // namespace spmm::tools
