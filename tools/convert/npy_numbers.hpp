// The numbers of a .npy array, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tools/convert/byte_input.hpp"
#include "tools/convert/npy_header.hpp"

namespace spmm::tools {

/// Memory: 1 MB. Errors: FormatError, IoError.
class NpyNumbers {
 public:
  /// Reads the head.
  explicit NpyNumbers(std::unique_ptr<ByteInput> input);

  [[nodiscard]] const NpyHeader& header() const { return header_; }
  [[nodiscard]] const std::string& name() const { return input_->name(); }

  /// Up to `most` further elements as doubles; empty at the end. A view that the next call makes invalid.
  std::span<const double> next(std::size_t most = kPieceItems);

  /// The next element. Errors: FormatError where the array has ended.
  double next_value() {
    if (next_value_ == values_.size()) {
      values_ = next();
      next_value_ = 0;
      if (values_.empty()) throw_ended();
    }
    return values_[next_value_++];
  }

  /// The next element of an array of indices. Errors: FormatError (not from 0 to `most`; the array has ended).
  std::uint64_t next_index(std::uint64_t most);

  static constexpr std::size_t kPieceItems = std::size_t{1} << 16;

 private:
  [[nodiscard]] std::size_t load(std::size_t most);
  [[noreturn]] void throw_ended() const;

  std::unique_ptr<ByteInput> input_;
  NpyHeader header_;
  std::uint64_t num_items_ = 0;
  std::uint64_t num_loaded_ = 0;
  std::uint64_t num_indices_read_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<double> numbers_;
  std::span<const double> values_;  ///< of numbers_, for next_value()
  std::size_t next_value_ = 0;
  std::vector<std::int64_t> indices_;
  std::size_t next_index_ = 0;
};

}  // namespace spmm::tools
