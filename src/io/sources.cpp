// Sources: files, and the caller's arrays: block-CSR, CSR and lists of blocks.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/records/head.hpp"
#include "base/text.hpp"
#include "io/files/input_file.hpp"
#include "io/formats/format.hpp"
#include "io/memory/bsr_records.hpp"
#include "spmm/arrays.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm {
namespace {

void check_range(const Source& source, std::uint64_t first, std::uint64_t count) {
  const std::uint64_t num_blocks = source.header().num_blocks;
  if (first <= num_blocks && count <= num_blocks - first) return;
  throw std::out_of_range(text(source.name(), ": blocks ", first, " + ", count, " of ", num_blocks));
}

/// A file as records.
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
  [[nodiscard]] std::string identity() const override { return file_.identity(); }

 private:
  io::InputFile file_;
};

/// Block-CSR arrays as records, in the order of the arrays.
class BsrSource final : public Source {
 public:
  BsrSource(const BsrView<std::uint16_t>& matrix, std::uint32_t n, std::string name)
      : name_(std::move(name)), records_(matrix, n, name_) {}

  [[nodiscard]] const MatrixHeader& header() const override { return records_.header(); }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::string place(std::uint64_t record) const override { return records_.place(record); }
  void check_unchanged() const override {}

  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    check_range(*this, first, count);
    records_.pack(first, count, dst);
  }

 private:
  std::string name_;
  io::BsrRecords<std::uint16_t> records_;
};

/// A list of blocks as records.
class BlockListSource final : public Source {
 public:
  BlockListSource(const BlockListView& matrix, std::string name) : matrix_(matrix), name_(std::move(name)) {
    io::check_matrix_sizes(matrix.n, matrix.m, matrix.index.size(), matrix.values.size(), name_);
    header_ = {.n = matrix.n, .m = matrix.m, .num_blocks = static_cast<std::uint32_t>(matrix.index.size())};
  }

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::string place(std::uint64_t record) const override { return text("block ", record); }
  void check_unchanged() const override {}

  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    check_range(*this, first, count);
    const std::uint64_t elements = std::uint64_t{matrix_.m} * matrix_.m;
    const std::uint64_t bytes = elements * sizeof(std::uint16_t);
    for (std::uint64_t r = first; r < first + count; ++r, dst += kIndexBytes + bytes) {
      write_index(dst, matrix_.index[r]);
      std::memcpy(dst + kIndexBytes, matrix_.values.data() + r * elements, bytes);
    }
  }

 private:
  BlockListView matrix_;
  std::string name_;
  MatrixHeader header_;
};

}  // namespace

std::uint32_t padded_side(const BsrView<std::uint16_t>& a, const BsrView<std::uint16_t>& b, const std::string& name_a,
                          const std::string& name_b) {
  io::check_bsr_sides(a.rows, a.cols, a.m, name_a);
  io::check_bsr_sides(b.rows, b.cols, b.m, name_b);
  const auto shape = [](const BsrView<std::uint16_t>& x) { return text(x.rows, " x ", x.cols); };
  const std::string both = name_a + " and " + name_b;
  if (a.m != b.m) {
    throw ShapeError(both, text("blocks of side ", a.m, " against ", b.m), "store both with blocks of the same side");
  }
  if (a.cols != b.rows) {
    throw ShapeError(both, text("shapes ", shape(a), " and ", shape(b)),
                     "multiply matrices where the first has as many columns as the second has rows");
  }
  return static_cast<std::uint32_t>(std::max<std::uint64_t>({a.rows, a.cols, b.cols, a.m}));
}

std::unique_ptr<Source> make_bsr_source(const BsrView<std::uint16_t>& matrix, std::uint32_t n, std::string name) {
  return std::make_unique<BsrSource>(matrix, n, std::move(name));
}

std::unique_ptr<Source> make_block_source(const BlockListView& matrix, std::string name) {
  return std::make_unique<BlockListSource>(matrix, std::move(name));
}

std::unique_ptr<Source> open_file_source(const std::filesystem::path& path) {
  return std::make_unique<FileSource>(path);
}

std::unique_ptr<Source> make_memory_source(const BlockMatrix& matrix, std::string name) {
  return make_block_source({.n = matrix.n, .m = matrix.m, .index = matrix.index, .values = matrix.values},
                           std::move(name));
}

}  // namespace spmm
