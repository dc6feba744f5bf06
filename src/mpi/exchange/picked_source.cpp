// A source of chosen records of a file.
#include "mpi/exchange/picked_source.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace spmm::mpi {
namespace {

constexpr std::uint64_t kReadBytes = 1u << 20;
/// Unwanted bytes between two records that are read rather than skipped by another call.
constexpr std::uint64_t kGapBytes = 4096;
constexpr std::uint64_t kWordBits = 64;

}  // namespace

PickedSource::PickedSource(const Source& whole, const RecordStore& picked, StoreLimit& limit)
    : whole_(whole), limit_(limit), header_(whole.header()) {
  limit_.take(picked.size() * sizeof(std::uint32_t));
  numbers_ = AlignedArray<std::uint32_t>(picked.size());
  std::vector<std::uint64_t> wanted(header_.num_blocks / kWordBits + 1, 0);
  for (std::uint64_t r = 0; r < picked.size(); ++r) {
    const std::uint32_t number = picked.number(r);
    wanted[number / kWordBits] |= std::uint64_t{1} << number % kWordBits;
  }
  std::uint64_t count = 0;
  for (std::uint64_t w = 0; w < wanted.size(); ++w) {
    for (std::uint64_t word = wanted[w]; word != 0; word &= word - 1) {
      numbers_[count++] = static_cast<std::uint32_t>(w * kWordBits + static_cast<unsigned>(std::countr_zero(word)));
    }
  }
  header_.num_blocks = static_cast<std::uint32_t>(count);
}

std::uint64_t PickedSource::end_of_run(std::uint64_t first, std::uint64_t last) const {
  const std::uint64_t record = input_record_bytes(header_.m);
  const std::uint64_t most = std::max<std::uint64_t>(1, kReadBytes / record);
  const std::uint64_t gap = kGapBytes / record + 1;
  std::uint64_t end = first + 1;
  while (end < last && numbers_[end] - numbers_[end - 1] <= gap && numbers_[end] - numbers_[first] < most) ++end;
  return end;
}

void PickedSource::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  const std::uint64_t record = input_record_bytes(header_.m);
  const std::uint64_t last = first + count;
  AlignedArray<std::byte> raw;
  while (first < last) {
    const std::uint64_t end = end_of_run(first, last);
    const std::uint64_t begin = numbers_[first];
    const std::uint64_t distance = numbers_[end - 1] + std::uint64_t{1} - begin;
    if (distance == end - first) {
      whole_.read(begin, distance, dst);
      dst += distance * record;
      first = end;
      continue;
    }
    if (raw.size() == 0) raw = AlignedArray<std::byte>(std::max(kReadBytes, record));
    whole_.read(begin, distance, raw.data());
    for (; first < end; ++first, dst += record) {
      std::memcpy(dst, raw.data() + (numbers_[first] - begin) * record, record);
    }
  }
}

}  // namespace spmm::mpi
