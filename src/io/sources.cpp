// Sources: records from a file.
#include <utility>

#include "io/files/input_file.hpp"
#include "spmm/arrays.hpp"
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
  [[nodiscard]] std::string identity() const override { return file_.identity(); }

 private:
  io::InputFile file_;
};

}  // namespace

std::unique_ptr<Source> open_file_source(const std::filesystem::path& path) {
  return std::make_unique<FileSource>(path);
}

std::unique_ptr<Source> make_memory_source(const BlockMatrix& matrix, std::string name) {
  return make_block_source({.n = matrix.n, .m = matrix.m, .index = matrix.index, .values = matrix.values},
                           std::move(name));
}

}  // namespace spmm
