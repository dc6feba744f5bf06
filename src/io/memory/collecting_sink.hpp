// A sink that keeps packed records until they are complete and then makes something else of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/release_once.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm::io {

/// Keeps a copy of each slice until finish(), which knows the final size: growing arrays would copy as often and need
/// more memory at their peak. The target changes when the result is published.
template <class Product>
class CollectingSink : public Sink {
 public:
  [[nodiscard]] bool keeps_records() const override { return true; }

  void append(std::span<const std::byte> records, std::function<void()> release) override {
    const ReleaseOnce release_at_end(std::move(release));
    guard_memory([&] { slices_.emplace_back(records.begin(), records.end()); });
    num_bytes_ += records.size();
  }

  void finish(const MatrixHeader& header) override {
    const std::uint64_t record = output_record_bytes(header.m);
    check_num_output_blocks(num_bytes_ / record);
    if (num_bytes_ != header.num_blocks * record) {
      throw std::logic_error(
          text(kName, ": finish() with ", header.num_blocks, " blocks after ", num_bytes_, " bytes"));
    }
    guard_memory([&] { unpack(header, slices_, product_); });
    finished_ = true;
  }

  void publish() override {
    if (!finished_) throw std::logic_error(std::string(kName) + ": publish() without finish()");
    out_ = std::move(product_);
    finished_ = false;
  }

 protected:
  explicit CollectingSink(Product& out) : out_(out) {}

 private:
  static constexpr const char* kName = "result in memory";

  /// Makes the product of whole records: they come by row, those of a row by column. Gives slices back on the way.
  virtual void unpack(const MatrixHeader& header, std::vector<std::vector<std::byte>>& slices, Product& product) = 0;

  template <class Action>
  void guard_memory(const Action& action) const {
    try {
      action();
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(kName, text("no memory for the result after ", human_bytes(num_bytes_), " of it"),
                        "multiply to a file instead, which needs memory for a part of the result only");
    }
  }

  Product& out_;
  Product product_;
  std::vector<std::vector<std::byte>> slices_;
  std::uint64_t num_bytes_ = 0;
  bool finished_ = false;
};

}  // namespace spmm::io
