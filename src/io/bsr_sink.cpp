// A sink that collects packed records and turns them into block-CSR arrays when they are complete.
#include <memory>
#include <vector>

#include "base/record_head.hpp"
#include "io/collecting_sink.hpp"
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
    product.indices.reserve(header.num_blocks);
    product.data.reserve(header.num_blocks * elements);
    for (std::vector<std::byte>& slice : slices) {
      for (const std::byte* at = slice.data(); at != slice.data() + slice.size(); at += record) {
        const BlockIndex index = read_index(at);
        ++product.indptr.at(std::uint64_t{index.i} + 1);
        product.indices.push_back(index.j);
        const auto* const values = reinterpret_cast<const std::uint32_t*>(at + kIndexBytes);
        product.data.insert(product.data.end(), values, values + elements);
      }
      slice = {};
    }
    for (std::size_t r = 1; r < product.indptr.size(); ++r) product.indptr[r] += product.indptr[r - 1];
  }

  std::uint64_t rows_;
  std::uint64_t cols_;
};

}  // namespace

std::unique_ptr<Sink> make_bsr_sink(BsrMatrix<std::uint32_t>& out, std::uint64_t rows, std::uint64_t cols) {
  return std::make_unique<BsrSink>(out, rows, cols);
}

}  // namespace spmm
