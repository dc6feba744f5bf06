// A sink that puts records into arrays as they come: a list of blocks, or block-CSR.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/reserve_pages.hpp"
#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "spmm/arrays.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm {
namespace {

/// Copies the values of packed records behind those that are there. Values: m = side of their blocks.
void append_values(const std::byte* records, std::uint64_t count, std::uint32_t m, std::vector<std::uint32_t>& values) {
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

/// A result as a list of blocks.
struct BlockArrays {
  ProductMatrix product{};

  void reserve(std::uint64_t most, std::uint32_t m) {
    reserve_pages(product.index, most);
    reserve_pages(product.values, most * m * m);
  }
  void take(const std::byte* records, std::uint64_t count, std::uint32_t m) {
    const std::size_t before = product.index.size();
    product.index.resize(before + count);
    for (std::uint64_t x = 0; x < count; ++x) {
      product.index[before + x] = read_index(records + x * output_record_bytes(m));
    }
    append_values(records, count, m, product.values);
  }
  void complete(const MatrixHeader& header) {
    product.n = header.n;
    product.m = header.m;
  }
};

/// A result as block-CSR arrays of rows x cols elements.
struct BsrArrays {
  BsrMatrix<std::uint32_t> product{};
  std::uint64_t row = 0;  ///< rows up to this one have their begin

  void reserve(std::uint64_t most, std::uint32_t m) {
    reserve_pages(product.indices, most);
    reserve_pages(product.data, most * m * m);
  }
  void take(const std::byte* records, std::uint64_t count, std::uint32_t m) {
    const std::size_t before = product.indices.size();
    if (product.indptr.empty()) product.indptr.assign(product.rows / m + 1, 0);
    product.indices.resize(before + count);
    for (std::uint64_t x = 0; x < count; ++x) {
      const BlockIndex index = read_index(records + x * output_record_bytes(m));
      while (row < index.i) product.indptr.at(++row) = static_cast<std::int64_t>(before + x);
      product.indices[before + x] = index.j;
    }
    append_values(records, count, m, product.data);
  }
  void complete(const MatrixHeader& header) {
    product.m = header.m;
    product.indptr.resize(product.rows / header.m + 1, 0);
    std::fill(product.indptr.begin() + static_cast<std::ptrdiff_t>(row) + 1, product.indptr.end(),
              static_cast<std::int64_t>(product.indices.size()));
  }
};

/// Fills arrays; the target changes when the result is published.
template <class Arrays, class Product>
class MemorySink final : public Sink {
 public:
  MemorySink(Product& out, Arrays arrays) : out_(out), arrays_(std::move(arrays)) {}

  [[nodiscard]] bool keeps_records() const override { return true; }

  void expect(std::uint32_t m, std::uint64_t most_blocks) override {
    m_ = m;
    if (most_blocks != 0) arrays_.reserve(most_blocks, m);
  }

  void write(std::uint64_t, std::span<const std::byte> records, Release) override {
    if (m_ == 0) throw std::logic_error(text(kName, ": write() before expect()"));
    const std::uint64_t count = records.size() / output_record_bytes(m_);
    check_num_output_blocks(num_blocks_ + count);
    try {
      arrays_.take(records.data(), count, m_);
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
    arrays_.complete(header);
    finished_ = true;
  }

  void publish() override {
    if (!finished_) throw std::logic_error(text(kName, ": publish() without finish()"));
    out_ = std::move(arrays_.product);
    finished_ = false;
  }

 private:
  static constexpr const char* kName = "result in memory";

  Product& out_;
  Arrays arrays_;
  std::uint32_t m_ = 0;
  std::uint64_t num_blocks_ = 0;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<Sink> make_memory_sink(ProductMatrix& out) {
  return std::make_unique<MemorySink<BlockArrays, ProductMatrix>>(out, BlockArrays{});
}

std::unique_ptr<Sink> make_bsr_sink(BsrMatrix<std::uint32_t>& out, std::uint64_t rows, std::uint64_t cols) {
  BsrArrays arrays;
  arrays.product.rows = rows;
  arrays.product.cols = cols;
  return std::make_unique<MemorySink<BsrArrays, BsrMatrix<std::uint32_t>>>(out, std::move(arrays));
}

}  // namespace spmm
