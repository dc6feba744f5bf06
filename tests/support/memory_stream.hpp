// Source and sink in memory that can misbehave on purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "spmm/engine.hpp"
#include "spmm/report.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"
#include "support/matrices.hpp"

namespace spmm::test {

inline const ProgressFn kNoProgress;

/// Records of a matrix, packed as in a file.
class MemorySource : public Source {
 public:
  explicit MemorySource(const BlockMatrix& matrix, std::string name = "matrix")
      : header_(matrix.header()), name_(std::move(name)), file_(file_of(matrix)) {}

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    if (on_read) on_read();
    const std::uint64_t record = input_record_bytes(header_.m);
    if (count != 0) std::memcpy(dst, file_.data() + kHeaderBytes + first * record, count * record);
  }
  void check_unchanged() const override {}

  std::function<void()> on_read;  ///< may throw; called before every read

 private:
  MatrixHeader header_;
  std::string name_;
  std::string file_;
};

/// Collects what is written. Keeps the newest buffers for a while before it releases them, as a writer does.
class MemorySink : public Sink {
 public:
  explicit MemorySink(const MatrixHeader& header, std::size_t num_kept = 0)
      : product_{.n = header.n, .m = header.m, .index = {}, .values = {}}, num_kept_(num_kept) {}
  ~MemorySink() override { release_down_to(0); }
  MemorySink(const MemorySink&) = delete;
  MemorySink& operator=(const MemorySink&) = delete;

  void write(std::uint64_t, std::span<const std::byte> records, Release release) override {
    kept_.push_back({.records = records, .release = std::move(release)});
    if (on_write) on_write();
    release_down_to(num_kept_);
  }
  void finish(const MatrixHeader&) override { release_down_to(0); }
  void publish() override {}

  /// Everything written and released so far.
  [[nodiscard]] const ProductMatrix& product() const { return product_; }

  std::function<void()> on_write;  ///< may throw

 private:
  struct Kept {
    std::span<const std::byte> records;
    Release release;
  };

  /// The bytes are examined only now: they have to stay until then.
  void release_down_to(std::size_t num_kept) {
    while (kept_.size() > num_kept) {
      unpack(kept_.front().records);
      kept_.erase(kept_.begin());  // and releases it
    }
  }

  void unpack(std::span<const std::byte> records) {
    const std::size_t elements = std::size_t{product_.m} * product_.m;
    const std::uint64_t record = output_record_bytes(product_.m);
    for (std::size_t at = 0; at < records.size(); at += record) {
      BlockIndex index;
      std::memcpy(&index, records.data() + at, kIndexBytes);
      product_.index.push_back(index);
      product_.values.resize(product_.values.size() + elements);
      std::memcpy(&*product_.values.end() - elements, records.data() + at + kIndexBytes, record - kIndexBytes);
    }
  }

  ProductMatrix product_;
  std::size_t num_kept_;
  std::vector<Kept> kept_;
};

/// multiply() into a sink of the caller's: a result that is returned would count against the memory limit.
inline ProductMatrix multiply_into_sink(const BlockMatrix& a, const BlockMatrix& b, const Options& options,
                                        Report* report = nullptr) {
  MemorySink sink(a.header());
  const Report done = Engine(options).multiply(MemorySource(a), MemorySource(b), sink, options);
  if (report != nullptr) *report = done;
  return sink.product();
}

}  // namespace spmm::test
