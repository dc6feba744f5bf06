#include "tools/convert/npz_reader.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/memory.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"
#include "spmm/types.hpp"
#include "tools/convert/npy_numbers.hpp"
#include "tools/convert/zip_files.hpp"

namespace spmm::tools {
namespace {

constexpr const char* kCreateAgain = "create the file again with scipy.sparse.save_npz";

/// A name of one word, stored as an array without dimensions.
std::string read_word(ByteInput& input) {
  const NpyHeader header = read_npy_header(input);
  const bool wide = header.kind == NpyKind::text;
  if ((header.kind != NpyKind::bytes && !wide) || header.num_items() != 1) {
    throw FormatError(input.name(), "is not a name, expected that of a sparse format", kCreateAgain);
  }
  std::vector<char> bytes(header.item_bytes * (wide ? 4 : 1));
  input.read_exactly(std::as_writable_bytes(std::span(bytes)));
  std::string word;
  for (const char c : bytes) {
    if (c != '\0') word += c;
  }
  return word;
}

class NpzReader : public EntryReader {
 public:
  explicit NpzReader(const std::filesystem::path& path) : name_(path.string()), zip_(open_zip(path)) {
    format_ = read_word(*zip_->open("format.npy"));
    if (format_ != "csr" && format_ != "csc" && format_ != "coo" && format_ != "bsr") {
      throw FormatError(text(name_, ", format.npy"),
                        text("the sparse format \"", format_, "\" is not read, expected bsr, csr, csc or coo"),
                        "convert it with .tocsr() or .tobsr() before scipy.sparse.save_npz");
    }
    read_shape();
    const NpyNumbers data = array("data");
    const std::vector<std::uint64_t>& sizes = data.header().shape;
    const std::size_t dimensions = format_ == "bsr" ? 3 : 1;
    if (sizes.size() != dimensions) {
      throw FormatError(data.name(), text("has ", sizes.size(), " dimensions, expected ", dimensions), kCreateAgain);
    }
    num_stored_ = sizes[0];
    if (format_ == "bsr") set_blocks(sizes[1], sizes[2], data.name());
  }

  [[nodiscard]] MatrixShape shape() const override { return shape_; }

  [[nodiscard]] std::uint32_t block_side() const override {
    return block_rows_ == block_columns_ && block_rows_ <= kMaxBlockDim ? static_cast<std::uint32_t>(block_rows_) : 0;
  }

  [[nodiscard]] std::string place_text(std::uint64_t place) override {
    if (format_ != "bsr") return text("data[", place, "]");
    const std::uint64_t area = block_rows_ * block_columns_;
    return text("data[", place / area, ", ", place % area / block_columns_, ", ", place % block_columns_, "]");
  }

  void read(EntrySink& sink) override {
    if (format_ == "bsr") {
      read_blocks(sink);
    } else if (format_ == "coo") {
      read_triples(sink);
    } else {
      read_compressed(sink, format_ == "csc");
    }
  }

 private:
  NpyNumbers array(const std::string& what) { return NpyNumbers(zip_->open(what + ".npy")); }

  void read_shape() {
    NpyNumbers sizes = array("shape");
    if (sizes.header().num_items() != 2) {
      throw FormatError(sizes.name(), text("has ", sizes.header().num_items(), " sizes, expected 2"), kCreateAgain);
    }
    shape_.rows = sizes.next_index(UINT32_MAX);
    shape_.columns = sizes.next_index(UINT32_MAX);
    if (shape_.rows == 0 || shape_.columns == 0) {
      throw FormatError(sizes.name(),
                        text("the matrix is ", shape_.rows, " x ", shape_.columns, ", it has no elements"),
                        "give a matrix with rows and columns");
    }
  }

  void set_blocks(std::uint64_t rows, std::uint64_t columns, const std::string& name) {
    if (rows == 0 || columns == 0 || shape_.rows % rows != 0 || shape_.columns % columns != 0) {
      throw FormatError(
          name,
          text("blocks of ", rows, " x ", columns, " do not divide the matrix of ", shape_.rows, " x ", shape_.columns),
          kCreateAgain);
    }
    block_rows_ = rows;
    block_columns_ = columns;
  }

  /// Errors: FormatError where an array of `what` is not as long as it must be.
  static void check_size(const NpyNumbers& numbers, std::uint64_t least, bool or_more) {
    const std::uint64_t found = numbers.header().num_items();
    if (numbers.header().shape.size() == 1 && (found == least || (or_more && found > least))) return;
    throw FormatError(numbers.name(), text("has ", found, " elements, expected ", least), kCreateAgain);
  }

  /// Calls visit(outer, inner) for each stored index of `outers` rows (csc: columns).
  template <class Visit>
  void for_each_index(std::uint64_t outers, std::uint64_t inners, const Visit& visit) {
    NpyNumbers bounds = array("indptr");
    NpyNumbers indices = array("indices");
    check_size(bounds, outers + 1, false);
    check_size(indices, num_stored_, true);
    std::uint64_t before = bounds.next_index(0);
    for (std::uint64_t outer = 0; outer < outers; ++outer) {
      const std::uint64_t end = bounds.next_index(num_stored_);
      if (end < before) {
        throw FormatError(text(bounds.name(), "[", outer + 1, "]"),
                          text("is ", end, ", less than ", before, " before it"), kCreateAgain);
      }
      for (; before < end; ++before) {
        visit(static_cast<std::uint32_t>(outer), static_cast<std::uint32_t>(indices.next_index(inners - 1)));
      }
    }
  }

  void read_compressed(EntrySink& sink, bool by_columns) {
    sink.expect(num_stored_, name_);
    NpyNumbers data = array("data");
    std::uint64_t place = 0;
    for_each_index(by_columns ? shape_.columns : shape_.rows, by_columns ? shape_.rows : shape_.columns,
                   [&](std::uint32_t outer, std::uint32_t inner) {
                     sink.add(by_columns ? inner : outer, by_columns ? outer : inner, data.next_value(), place++);
                   });
  }

  void read_triples(EntrySink& sink) {
    sink.expect(num_stored_, name_);
    NpyNumbers rows = array("row");
    NpyNumbers columns = array("col");
    NpyNumbers data = array("data");
    check_size(rows, num_stored_, false);
    check_size(columns, num_stored_, false);
    for (std::uint64_t e = 0; e < num_stored_; ++e) {
      const auto row = static_cast<std::uint32_t>(rows.next_index(shape_.rows - 1));
      const auto column = static_cast<std::uint32_t>(columns.next_index(shape_.columns - 1));
      sink.add(row, column, data.next_value(), e);
    }
  }

  /// The elements of a block are not beside each other where data is in Fortran order, as that of a transposed matrix
  /// may be: the places of all blocks are read first.
  void read_blocks(EntrySink& sink) {
    std::vector<BlockIndex> blocks;
    if (num_stored_ > available_memory_bytes() / sizeof(BlockIndex)) {
      throw OutOfMemory(name_, text(num_stored_, " blocks do not fit the free memory"), "use a machine with more");
    }
    blocks.reserve(num_stored_);
    for_each_index(shape_.rows / block_rows_, shape_.columns / block_columns_,
                   [&](std::uint32_t i, std::uint32_t j) { blocks.push_back({.i = i, .j = j}); });
    NpyNumbers data = array("data");
    const bool fortran = data.header().fortran_order;
    const std::uint64_t area = block_rows_ * block_columns_;
    sink.expect_at_most(num_stored_ * area, name_);
    const auto add = [&](std::uint64_t b, std::uint64_t r, std::uint64_t c) {
      const double value = data.next_value();
      if (value == 0 || b >= blocks.size()) return;
      sink.add(static_cast<std::uint32_t>(blocks[b].i * block_rows_ + r),
               static_cast<std::uint32_t>(blocks[b].j * block_columns_ + c), value, b * area + r * block_columns_ + c);
    };
    if (fortran) {
      for (std::uint64_t e = 0; e < area; ++e) {
        for (std::uint64_t b = 0; b < num_stored_; ++b) add(b, e % block_rows_, e / block_rows_);
      }
      return;
    }
    for (std::uint64_t b = 0; b < num_stored_; ++b) {
      for (std::uint64_t r = 0; r < block_rows_; ++r) {
        for (std::uint64_t c = 0; c < block_columns_; ++c) add(b, r, c);
      }
    }
  }

  std::string name_;
  std::unique_ptr<ZipInput> zip_;
  std::string format_;
  MatrixShape shape_;
  std::uint64_t num_stored_ = 0;  ///< elements, or blocks of bsr
  std::uint64_t block_rows_ = 0;
  std::uint64_t block_columns_ = 0;
};

}  // namespace

std::unique_ptr<EntryReader> open_npz(const std::filesystem::path& path) {
  return std::make_unique<NpzReader>(path);
}

}  // namespace spmm::tools
