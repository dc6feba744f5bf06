// The transpose of a matrix, as a source.
#pragma once

#include <string>

#include "spmm/stream.hpp"

namespace spmm::io {

/// Each record of another source, transposed in the caller's buffer once it is read: no separate pass over the data,
/// and no other reader knows of it. Messages name record and block as they are in the other source.
class TransposedSource final : public Source {
 public:
  /// `plain` must outlive it.
  explicit TransposedSource(const Source& plain) : plain_(plain) {}

  [[nodiscard]] const MatrixHeader& header() const override { return plain_.header(); }  // matrices are square
  [[nodiscard]] const std::string& name() const override { return plain_.name(); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;
  void prefetch() const override { plain_.prefetch(); }
  [[nodiscard]] std::string identity() const override {
    const std::string plain = plain_.identity();
    return plain.empty() ? plain : plain + ", transposed";
  }
  [[nodiscard]] std::uint64_t original_record(std::uint64_t record) const override {
    return plain_.original_record(record);
  }
  [[nodiscard]] std::string place(std::uint64_t record) const override { return plain_.place(record); }
  [[nodiscard]] BlockIndex original_index(BlockIndex index) const override {
    return plain_.original_index({.i = index.j, .j = index.i});
  }
  void check_unchanged() const override { plain_.check_unchanged(); }

 private:
  const Source& plain_;
};

}  // namespace spmm::io
