// A sink that collects packed records and turns them into block-CSR arrays when they are complete.
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/record_errors.hpp"
#include "base/record_head.hpp"
#include "base/release_once.hpp"
#include "base/text.hpp"
#include "spmm/arrays.hpp"
#include "spmm/error.hpp"

namespace spmm {
namespace {

/// Keeps a copy of each slice until finish(), which knows the final size: growing arrays would copy as often and need
/// more memory at their peak.
class BsrSink final : public Sink {
 public:
  BsrSink(BsrMatrix<std::uint32_t>& out, std::uint64_t rows, std::uint64_t cols) : out_(out) {
    product_.rows = rows;
    product_.cols = cols;
  }

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
    guard_memory([&] { unpack(header); });
    finished_ = true;
  }

  void publish() override {
    if (!finished_) throw std::logic_error(std::string(kName) + ": publish() without finish()");
    out_ = std::move(product_);
    finished_ = false;
  }

 private:
  static constexpr const char* kName = "result in memory";

  /// Records come by row, those of a row by column.
  void unpack(const MatrixHeader& header) {
    const std::uint64_t elements = std::uint64_t{header.m} * header.m;
    const std::uint64_t record = output_record_bytes(header.m);
    product_.m = header.m;
    product_.indptr.assign(product_.rows / header.m + 1, 0);
    product_.indices.reserve(header.num_blocks);
    product_.data.reserve(header.num_blocks * elements);
    for (std::vector<std::byte>& slice : slices_) {
      for (const std::byte* at = slice.data(); at != slice.data() + slice.size(); at += record) {
        const BlockIndex index = read_index(at);
        ++product_.indptr.at(std::uint64_t{index.i} + 1);
        product_.indices.push_back(index.j);
        const auto* const values = reinterpret_cast<const std::uint32_t*>(at + kIndexBytes);
        product_.data.insert(product_.data.end(), values, values + elements);
      }
      slice = {};
    }
    for (std::size_t r = 1; r < product_.indptr.size(); ++r) product_.indptr[r] += product_.indptr[r - 1];
  }

  template <class Action>
  void guard_memory(const Action& action) const {
    try {
      action();
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(kName, text("no memory for the result after ", human_bytes(num_bytes_), " of it"),
                        "multiply to a file instead, which needs memory for a part of the result only");
    }
  }

  BsrMatrix<std::uint32_t>& out_;
  BsrMatrix<std::uint32_t> product_;
  std::vector<std::vector<std::byte>> slices_;
  std::uint64_t num_bytes_ = 0;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<Sink> make_bsr_sink(BsrMatrix<std::uint32_t>& out, std::uint64_t rows, std::uint64_t cols) {
  return std::make_unique<BsrSink>(out, rows, cols);
}

}  // namespace spmm
