// A sink that fills a list of blocks.
#include <memory>

#include "io/memory/collecting_sink.hpp"
#include "spmm/io.hpp"

namespace spmm {
namespace {

class MemorySink final : public io::CollectingSink<ProductMatrix> {
 public:
  explicit MemorySink(ProductMatrix& out) : CollectingSink(out) {}

 private:
  void reserve(std::uint64_t most_blocks, ProductMatrix& product) override {
    io::reserve_pages(product.index, most_blocks);
    io::reserve_pages(product.values, most_blocks * m() * m());
  }

  void take(const std::byte* records, std::uint64_t count, ProductMatrix& product) override {
    const std::uint64_t record = output_record_bytes(m());
    product.index.resize(num_blocks() + count);
    for (std::uint64_t x = 0; x < count; ++x) product.index[num_blocks() + x] = read_index(records + x * record);
    io::append_values(records, count, m(), product.values);
  }

  void complete(const MatrixHeader& header, ProductMatrix& product) override {
    product.n = header.n;
    product.m = header.m;
  }
};

}  // namespace

std::unique_ptr<Sink> make_memory_sink(ProductMatrix& out) {
  return std::make_unique<MemorySink>(out);
}

}  // namespace spmm
