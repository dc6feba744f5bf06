// A sink that collects packed records and turns them into a matrix when they are complete.
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/record_errors.hpp"
#include "base/text.hpp"
#include "io/format.hpp"
#include "io/pack.hpp"
#include "io/slice_queue.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm {
namespace {

/// Keeps a copy of each slice until finish(), which knows the final size: growing arrays would copy as often and need
/// more memory at their peak.
class MemorySink final : public Sink {
 public:
  explicit MemorySink(ProductMatrix& out) : out_(out) {}

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
    guard_memory([&] { product_ = io::empty_matrix<std::uint32_t>(header); });
    for (std::vector<std::byte>& slice : slices_) {
      io::unpack_records(slice.data(), slice.size() / record, product_);
      slice = {};
    }
    finished_ = true;
  }

  void publish() override {
    if (!finished_) throw std::logic_error(std::string(kName) + ": publish() without finish()");
    out_ = std::move(product_);
    finished_ = false;
  }

 private:
  static constexpr const char* kName = "result in memory";

  template <class Action>
  void guard_memory(const Action& action) const {
    try {
      action();
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(kName, text("no memory for the result after ", human_bytes(num_bytes_), " of it"),
                        "multiply to a file instead, which needs memory for a part of the result only");
    }
  }

  ProductMatrix& out_;
  ProductMatrix product_;
  std::vector<std::vector<std::byte>> slices_;
  std::uint64_t num_bytes_ = 0;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<Sink> make_memory_sink(ProductMatrix& out) {
  return std::make_unique<MemorySink>(out);
}

}  // namespace spmm
