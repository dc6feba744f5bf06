// A sink that fills block-CSR arrays.
#include <algorithm>
#include <memory>
#include <vector>

#include "base/records/head.hpp"
#include "io/memory/collecting_sink.hpp"
#include "spmm/arrays.hpp"

namespace spmm {
namespace {

class BsrSink final : public io::CollectingSink<BsrMatrix<std::uint32_t>> {
 public:
  BsrSink(BsrMatrix<std::uint32_t>& out, std::uint64_t rows, std::uint64_t cols)
      : CollectingSink(out), rows_(rows), cols_(cols) {}

 private:
  void reserve(std::uint64_t most_blocks, BsrMatrix<std::uint32_t>& product) override {
    io::reserve_pages(product.indices, most_blocks);
    io::reserve_pages(product.data, most_blocks * m() * m());
  }

  void take(const std::byte* records, std::uint64_t count, BsrMatrix<std::uint32_t>& product) override {
    const std::uint64_t record = output_record_bytes(m());
    if (product.indptr.empty()) product.indptr.assign(rows_ / m() + 1, 0);
    product.indices.resize(num_blocks() + count);
    for (std::uint64_t x = 0; x < count; ++x) {
      const BlockIndex index = read_index(records + x * record);
      while (row_ < index.i) product.indptr.at(++row_) = static_cast<std::int64_t>(num_blocks() + x);
      product.indices[num_blocks() + x] = index.j;
    }
    io::append_values(records, count, m(), product.data);
  }

  void complete(const MatrixHeader& header, BsrMatrix<std::uint32_t>& product) override {
    product.rows = rows_;
    product.cols = cols_;
    product.m = header.m;
    product.indptr.resize(rows_ / header.m + 1, 0);
    std::fill(product.indptr.begin() + static_cast<std::ptrdiff_t>(row_) + 1, product.indptr.end(),
              static_cast<std::int64_t>(num_blocks()));
  }

  std::uint64_t rows_;
  std::uint64_t cols_;
  std::uint64_t row_ = 0;  // rows up to this one have their begin
};

}  // namespace

std::unique_ptr<Sink> make_bsr_sink(BsrMatrix<std::uint32_t>& out, std::uint64_t rows, std::uint64_t cols) {
  return std::make_unique<BsrSink>(out, rows, cols);
}

}  // namespace spmm
