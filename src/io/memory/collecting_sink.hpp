// A sink that puts records into arrays as they come.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/records/release_once.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm::io {

/// Room for `most` elements. Pages are taken as they are filled, so that a bound may be several times too high; huge
/// ones, of which few are cleared one by one.
template <class T>
void reserve_pages(std::vector<T>& array, std::uint64_t most) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
  constexpr std::uint64_t kLargeBytes = 4u << 20;
  const std::uint64_t bytes = most * sizeof(T);
  if (most <= array.capacity() || bytes > kMostBytes) return;
  try {
    array.reserve(most);
  } catch (const std::bad_alloc&) {
    return;  // it grows instead
  }
  if (bytes < kLargeBytes) return;
  const std::uint64_t page = page_bytes();
  const std::uint64_t begin = (reinterpret_cast<std::uintptr_t>(array.data()) + page - 1) / page * page;
  static_cast<void>(::madvise(reinterpret_cast<void*>(begin), bytes - page, MADV_HUGEPAGE));  // only advice
}

/// Fills a product; the target changes when the result is published.
template <class Product>
class CollectingSink : public Sink {
 public:
  [[nodiscard]] bool keeps_records() const override { return true; }

  void expect(std::uint32_t m, std::uint64_t most_blocks) override {
    m_ = m;
    if (most_blocks != 0) reserve(most_blocks, product_);
  }

  void append(std::span<const std::byte> records, std::function<void()> release) override {
    const ReleaseOnce release_at_end(std::move(release));
    if (m_ == 0) throw std::logic_error(std::string(kName) + ": append() before expect()");
    const std::uint64_t count = records.size() / output_record_bytes(m_);
    check_num_output_blocks(num_blocks_ + count);
    try {
      take(records.data(), count, product_);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(
          kName, text("no memory for the result after ", human_bytes(num_blocks_ * output_record_bytes(m_)), " of it"),
          "multiply to a file instead, which needs memory for a part of the result only");
    }
    num_blocks_ += count;
  }

  void finish(const MatrixHeader& header) override {
    if (num_blocks_ != header.num_blocks) {
      throw std::logic_error(
          text(kName, ": finish() with ", header.num_blocks, " blocks after ", num_blocks_, " blocks"));
    }
    complete(header, product_);
    finished_ = true;
  }

  void publish() override {
    if (!finished_) throw std::logic_error(std::string(kName) + ": publish() without finish()");
    out_ = std::move(product_);
    finished_ = false;
  }

 protected:
  explicit CollectingSink(Product& out) : out_(out) {}

  [[nodiscard]] std::uint32_t m() const { return m_; }
  [[nodiscard]] std::uint64_t num_blocks() const { return num_blocks_; }

 private:
  static constexpr const char* kName = "result in memory";

  virtual void reserve(std::uint64_t most_blocks, Product& product) = 0;
  /// Whole records: they come by row, those of a row by column.
  virtual void take(const std::byte* records, std::uint64_t count, Product& product) = 0;
  /// After the last record.
  virtual void complete(const MatrixHeader& header, Product& product) = 0;

  Product& out_;
  Product product_;
  std::uint32_t m_ = 0;
  std::uint64_t num_blocks_ = 0;
  bool finished_ = false;
};

/// Copies the values of packed records behind those that are there. Values: m = side of their blocks.
inline void append_values(const std::byte* records, std::uint64_t count, std::uint32_t m,
                          std::vector<std::uint32_t>& values) {
  const std::uint64_t elements = std::uint64_t{m} * m;
  const std::uint64_t record = output_record_bytes(m);
  const std::size_t before = values.size();
  values.resize(before + count * elements);  // cleared while it is in the cache, in slices of 1 MB
  std::uint32_t* to = values.data() + before;
  if (elements == 1) {  // one move, not a call
    for (std::uint64_t x = 0; x < count; ++x) std::memcpy(to + x, records + x * record + kIndexBytes, sizeof *to);
    return;
  }
  for (std::uint64_t x = 0; x < count; ++x, to += elements) {
    std::memcpy(to, records + x * record + kIndexBytes, elements * sizeof *to);
  }
}

}  // namespace spmm::io
