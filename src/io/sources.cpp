// Sources: records from a file, and from a matrix in memory packed while they are read.
#include <cstring>
#include <stdexcept>

#include "base/text.hpp"
#include "io/files/input_file.hpp"
#include "io/formats/format.hpp"
#include "io/memory/pack.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm {
namespace {

class FileSource final : public Source {
 public:
  explicit FileSource(const std::filesystem::path& path) : file_(path, ElementType::u16) {
    file_.expect_sequential_reads();
  }

  [[nodiscard]] const MatrixHeader& header() const override { return file_.header(); }
  [[nodiscard]] const std::string& name() const override { return file_.name(); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    file_.read_records(first, count, dst);
  }
  void check_unchanged() const override { file_.check_unchanged(); }
  void prefetch() const override { file_.prefetch(); }
  [[nodiscard]] std::optional<SourceIdentity> identity() const override { return file_.identity(); }

 private:
  io::InputFile file_;
};

class MemorySource final : public Source {
 public:
  MemorySource(const BlockMatrix& matrix, std::string name) : matrix_(matrix), name_(std::move(name)) {
    io::check_matrix_sizes(matrix.n, matrix.m, matrix.index.size(), matrix.values.size(), name_);
    header_ = matrix.header();
  }

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return name_; }

  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    if (first > header_.num_blocks || count > header_.num_blocks - first) {
      throw std::out_of_range(text(name_, ": blocks ", first, " + ", count, " of ", header_.num_blocks));
    }
    io::pack_records(matrix_, first, count, dst);
  }

  [[nodiscard]] std::string place(std::uint64_t record) const override { return text("block ", record); }

  void check_unchanged() const override {
    const std::uint64_t values = std::uint64_t{header_.num_blocks} * header_.m * header_.m;
    if (matrix_.index.size() == header_.num_blocks && matrix_.values.size() == values) return;
    throw FormatError(name_,
                      text("the matrix changed its size while it was read: now ", matrix_.index.size(),
                           " blocks, expected ", header_.num_blocks),
                      "keep the matrix unchanged until the call returns");
  }

 private:
  const BlockMatrix& matrix_;
  std::string name_;
  MatrixHeader header_;
};

}  // namespace

std::unique_ptr<Source> open_file_source(const std::filesystem::path& path) {
  return std::make_unique<FileSource>(path);
}

std::unique_ptr<Source> make_memory_source(const BlockMatrix& matrix, std::string name) {
  return std::make_unique<MemorySource>(matrix, std::move(name));
}

}  // namespace spmm
