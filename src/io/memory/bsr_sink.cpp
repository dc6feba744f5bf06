// A sink that collects packed records and turns them into block-CSR arrays when they are complete.
#include <algorithm>
#include <cstring>
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
  void unpack(const MatrixHeader& header, std::vector<std::vector<std::byte>>& slices,
              BsrMatrix<std::uint32_t>& product) override {
    const std::uint64_t elements = std::uint64_t{header.m} * header.m;
    const std::uint64_t record = output_record_bytes(header.m);
    product.rows = rows_;
    product.cols = cols_;
    product.m = header.m;
    product.indptr.assign(rows_ / header.m + 1, 0);
    product.indices.resize(header.num_blocks);
    product.data.resize(header.num_blocks * elements);
    std::uint64_t number = 0;
    std::uint64_t row = 0;  // rows up to this one have their begin
    for (std::vector<std::byte>& slice : slices) {
      for (const std::byte* at = slice.data(); at != slice.data() + slice.size(); at += record, ++number) {
        const BlockIndex index = read_index(at);
        while (row < index.i) product.indptr.at(++row) = static_cast<std::int64_t>(number);
        product.indices[number] = index.j;
        std::uint32_t* const values = product.data.data() + number * elements;
        if (elements == 1) {
          std::memcpy(values, at + kIndexBytes, sizeof *values);  // one move, not a call
        } else {
          std::memcpy(values, at + kIndexBytes, elements * sizeof *values);
        }
      }
      slice = {};
    }
    std::fill(product.indptr.begin() + static_cast<std::ptrdiff_t>(row) + 1, product.indptr.end(),
              static_cast<std::int64_t>(number));
  }

  std::uint64_t rows_;
  std::uint64_t cols_;
};

}  // namespace

std::unique_ptr<Sink> make_bsr_sink(BsrMatrix<std::uint32_t>& out, std::uint64_t rows, std::uint64_t cols) {
  return std::make_unique<BsrSink>(out, rows, cols);
}

}  // namespace spmm
