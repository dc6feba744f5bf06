#include "tools/convert/npy_reader.hpp"

#include <string>

#include "base/text.hpp"
#include "spmm/error.hpp"
#include "tools/convert/npy_numbers.hpp"

namespace spmm::tools {
namespace {

class NpyReader : public EntryReader {
 public:
  explicit NpyReader(const std::filesystem::path& path) : name_(path.string()) {
    const NpyNumbers numbers(open_byte_input(path));
    const NpyHeader& header = numbers.header();
    if (header.shape.size() != 2) {
      throw FormatError(name_, text("the array has ", header.shape.size(), " dimensions, expected 2"),
                        "save a matrix: reshape the array");
    }
    shape_ = {.rows = header.shape[0], .columns = header.shape[1]};
    if (shape_.rows == 0 || shape_.columns == 0 || shape_.rows > UINT32_MAX || shape_.columns > UINT32_MAX) {
      throw FormatError(name_,
                        text("the array has ", shape_.rows, " x ", shape_.columns, " elements, expected 1 to ",
                             UINT32_MAX, " rows and columns"),
                        "save a matrix of such a shape");
    }
  }

  [[nodiscard]] MatrixShape shape() const override { return shape_; }
  [[nodiscard]] std::string place_text(std::uint64_t) override { return ""; }

  void read(EntrySink& sink) override {
    sink.expect_at_most(shape_.rows * shape_.columns, name_);
    NpyNumbers numbers(open_byte_input(name_));
    const bool by_columns = numbers.header().fortran_order;
    const std::uint64_t line = by_columns ? shape_.rows : shape_.columns;
    std::uint32_t outer = 0;
    std::uint32_t inner = 0;
    for (auto piece = numbers.next(); !piece.empty(); piece = numbers.next()) {
      for (const double value : piece) {
        if (value != 0) sink.add(by_columns ? inner : outer, by_columns ? outer : inner, value, 0);
        if (++inner < line) continue;
        inner = 0;
        ++outer;
      }
    }
  }

 private:
  std::string name_;
  MatrixShape shape_;
};

}  // namespace

std::unique_ptr<EntryReader> open_npy(const std::filesystem::path& path) {
  return std::make_unique<NpyReader>(path);
}

}  // namespace spmm::tools
