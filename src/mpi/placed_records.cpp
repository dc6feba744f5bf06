// Whole pages to the file, the rest to rank 0.
#include "mpi/placed_records.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"

namespace spmm::mpi {
namespace {

PageSplit split_of(const Place& place, bool writes_all) {
  if (!writes_all) return split_pages(place.begin, place.end, page_bytes());
  return {.begin = place.begin, .whole_begin = place.begin, .whole_end = place.end, .end = place.end};
}

/// A piece of the output on its way to rank 0: offset, length, bytes.
void add_piece(Bytes& to, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::array<std::uint64_t, 2> head = {offset, bytes.size()};
  const auto words = std::as_bytes(std::span(head));
  to.insert(to.end(), words.begin(), words.end());
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// Bytes that lie at `at` in the output: those in front of its whole pages, in them, and behind them.
template <class Byte>
std::array<std::span<Byte>, 3> cut_bytes(const PageSplit& split, std::uint64_t at, std::span<Byte> bytes) {
  const std::uint64_t end = at + bytes.size();
  const std::uint64_t head = std::clamp(split.whole_begin, at, end) - at;
  const std::uint64_t whole = std::clamp(split.whole_end, at, end) - at;
  return {bytes.first(head), bytes.subspan(head, whole - head), bytes.subspan(whole)};
}

}  // namespace

PlacedRecords::PlacedRecords(SharedOutput& output, std::uint32_t m, Place place, bool is_first, unsigned num_writers)
    : output_(output),
      record_bytes_(output_record_bytes(m)),
      place_(place),
      split_(split_of(place, is_first)),
      head_(split_.head_bytes()),
      tail_(split_.tail_bytes()),
      writers_(num_writers, io::kPieceBytes,
               [this](std::uint64_t offset, std::span<const std::byte> bytes) { put(offset, bytes); }) {}

void PlacedRecords::write(std::uint64_t first_block, std::span<const std::byte> records, Release release) {
  const std::uint64_t offset = first_block * record_bytes_;
  size_bytes_ += records.size();
  check_num_output_blocks(size_bytes_ / record_bytes_);
  const bool has_room = place_.begin + offset + records.size() <= place_.end;
  if (has_room || output_.is_device()) writers_.push(offset, records, release);
}

void PlacedRecords::put(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t at = place_.begin + offset;
  if (output_.is_device()) return output_.write_at(at, bytes);
  const auto [head, whole, tail] = cut_bytes(split_, at, bytes);
  if (!head.empty()) std::memcpy(head_.data() + offset, head.data(), head.size());
  if (!whole.empty()) output_.write_at(std::max(at, split_.whole_begin), whole);
  if (!tail.empty())
    std::memcpy(tail_.data() + std::max(at, split_.whole_end) - split_.whole_end, tail.data(), tail.size());
}

bool PlacedRecords::read_back(std::uint64_t first_block, std::uint64_t count, std::byte* dst) {
  const std::uint64_t offset = first_block * record_bytes_;
  const std::uint64_t at = place_.begin + offset;
  const auto [head, whole, tail] = cut_bytes(split_, at, std::span(dst, count * record_bytes_));
  if (!head.empty()) std::memcpy(head.data(), head_.data() + offset, head.size());
  if (!whole.empty() && !output_.read_at(std::max(at, split_.whole_begin), whole)) return false;
  if (!tail.empty())
    std::memcpy(tail.data(), tail_.data() + std::max(at, split_.whole_end) - split_.whole_end, tail.size());
  return true;
}

Bytes PlacedRecords::shared_pages() const {
  Bytes pieces;
  add_piece(pieces, split_.begin, head_);
  add_piece(pieces, split_.whole_end, tail_);
  return pieces;
}

void write_pieces(SharedOutput& output, std::span<const std::byte> pieces) {
  while (!pieces.empty()) {
    std::array<std::uint64_t, 2> head{};
    std::memcpy(head.data(), pieces.data(), sizeof head);
    output.write_at(head[0], pieces.subspan(sizeof head, head[1]));
    pieces = pieces.subspan(sizeof head + head[1]);
  }
}

}  // namespace spmm::mpi
