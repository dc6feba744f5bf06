#include "tools/convert/npy_numbers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

static_assert(std::endian::native == std::endian::little);

/// A float of 16 bits (IEEE 754).
struct Half {
  std::uint16_t bits;

  explicit operator double() const {
    const int exponent = bits >> 10 & 31;
    const double fraction = bits & 1023;
    const double size = exponent == 0    ? std::ldexp(fraction, -24)
                        : exponent == 31 ? (fraction == 0 ? HUGE_VAL : std::nan(""))
                                         : std::ldexp(fraction + 1024, exponent - 25);
    return (bits & 0x8000) != 0 ? -size : size;
  }
};

/// Shapes: from [to.size() * sizeof(T)] bytes.
template <class T, class To>
void convert(const std::byte* from, std::vector<To>& to) {
  for (std::size_t e = 0; e < to.size(); ++e) {
    T value;
    std::memcpy(&value, from + e * sizeof(T), sizeof(T));
    to[e] = static_cast<To>(value);
  }
}

template <class To>
void convert_integers(const NpyHeader& header, const std::byte* from, std::vector<To>& to) {
  const bool is_signed = header.kind == NpyKind::signed_integer;
  switch (header.item_bytes) {
    case 1:
      return is_signed ? convert<std::int8_t>(from, to) : convert<std::uint8_t>(from, to);
    case 2:
      return is_signed ? convert<std::int16_t>(from, to) : convert<std::uint16_t>(from, to);
    case 4:
      return is_signed ? convert<std::int32_t>(from, to) : convert<std::uint32_t>(from, to);
    default:
      return is_signed ? convert<std::int64_t>(from, to) : convert<std::uint64_t>(from, to);
  }
}

void convert_reals(const NpyHeader& header, const std::byte* from, std::vector<double>& to) {
  switch (header.item_bytes) {
    case 2:
      return convert<Half>(from, to);
    case 4:
      return convert<float>(from, to);
    default:
      return convert<double>(from, to);
  }
}

bool is_number(NpyKind kind) {
  return kind != NpyKind::bytes && kind != NpyKind::text;
}

}  // namespace

NpyNumbers::NpyNumbers(std::unique_ptr<ByteInput> input) : input_(std::move(input)), header_(read_npy_header(*input_)) {
  if (!is_number(header_.kind)) {
    throw FormatError(input_->name(), "the array holds text, expected numbers", "save an array of numbers");
  }
  num_items_ = header_.num_items();
}

/// Reads the bytes of the next elements, in the order of this machine; returns how many elements.
std::size_t NpyNumbers::load(std::size_t most) {
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(most, num_items_ - num_loaded_));
  bytes_.resize(count * header_.item_bytes);
  input_->read_exactly(bytes_);
  num_loaded_ += count;
  if (header_.big_endian) {
    for (auto at = bytes_.begin(); at != bytes_.end(); at += header_.item_bytes) {
      std::reverse(at, at + header_.item_bytes);
    }
  }
  return count;
}

std::span<const double> NpyNumbers::next(std::size_t most) {
  numbers_.resize(load(std::min(most, kPieceItems)));
  if (header_.kind == NpyKind::real) {
    convert_reals(header_, bytes_.data(), numbers_);
  } else {
    convert_integers(header_, bytes_.data(), numbers_);
  }
  return numbers_;
}

void NpyNumbers::throw_ended() const {
  throw FormatError(name(), text("has only ", num_items_, " elements, fewer than the other arrays need"),
                    "create the file again with scipy.sparse.save_npz");
}

std::uint64_t NpyNumbers::next_index(std::uint64_t most) {
  if (next_index_ == indices_.size()) {
    if (header_.kind != NpyKind::signed_integer && header_.kind != NpyKind::unsigned_integer) {
      throw FormatError(name(), "the array holds no integers, expected indices", "create the file again");
    }
    indices_.resize(load(kPieceItems));
    if (indices_.empty()) throw_ended();
    convert_integers(header_, bytes_.data(), indices_);
    next_index_ = 0;
  }
  const std::int64_t index = indices_[next_index_++];
  ++num_indices_read_;
  if (index >= 0 && static_cast<std::uint64_t>(index) <= most) return static_cast<std::uint64_t>(index);
  throw FormatError(text(name(), "[", num_indices_read_ - 1, "]"), text("is ", index, ", expected 0 to ", most),
                    "create the file again with scipy.sparse.save_npz");
}

}  // namespace spmm::tools
