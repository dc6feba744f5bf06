// A sink that collects packed records and turns them into a matrix when they are complete.
#include <memory>
#include <vector>

#include "io/formats/format.hpp"
#include "io/memory/collecting_sink.hpp"
#include "io/memory/pack.hpp"
#include "spmm/io.hpp"

namespace spmm {
namespace {

class MemorySink final : public io::CollectingSink<ProductMatrix> {
 public:
  explicit MemorySink(ProductMatrix& out) : CollectingSink(out) {}

 private:
  void unpack(const MatrixHeader& header, std::vector<std::vector<std::byte>>& slices,
              ProductMatrix& product) override {
    product = io::empty_matrix<std::uint32_t>(header);
    for (std::vector<std::byte>& slice : slices) {
      io::unpack_records(slice.data(), slice.size() / output_record_bytes(header.m), product);
      slice = {};
    }
  }
};

}  // namespace

std::unique_ptr<Sink> make_memory_sink(ProductMatrix& out) {
  return std::make_unique<MemorySink>(out);
}

}  // namespace spmm
