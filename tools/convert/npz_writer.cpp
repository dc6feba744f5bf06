#include "tools/convert/npz_writer.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/convert/npy_header.hpp"
#include "tools/convert/zip_files.hpp"

namespace spmm::tools {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 18;

using Bytes = std::vector<std::byte>;
using More = std::function<void(Bytes& to)>;

void append(Bytes& to, const void* from, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + bytes);
}

/// A member with the head of an array in front of what `more` makes.
ZipMember array_member(const std::string& name, const std::string& descr, const std::vector<std::uint64_t>& shape,
                       std::uint64_t item_bytes, std::function<void()> start, More more) {
  const std::string head = make_npy_header(descr, shape);
  std::uint64_t bytes = item_bytes;
  for (const std::uint64_t size : shape) bytes *= size;
  const auto head_is_out = std::make_shared<bool>(false);
  return {.name = name + ".npy",
          .bytes = head.size() + bytes,
          .more =
              [head, head_is_out, more = std::move(more)](Bytes& to) {
                if (std::exchange(*head_is_out, true)) return more(to);
                append(to, head.data(), head.size());
              },
          .start =
              [head_is_out, start = std::move(start)] {
                *head_is_out = false;
                start();
              }};
}

/// A member with these bytes as its only content behind the head.
ZipMember constant_member(const std::string& name, const std::string& descr, const std::vector<std::uint64_t>& shape,
                          const std::string& content) {
  const auto is_out = std::make_shared<bool>(false);
  std::uint64_t items = 1;
  for (const std::uint64_t size : shape) items *= size;
  return array_member(
      name, descr, shape, content.size() / items, [is_out] { *is_out = false; },
      [is_out, content](Bytes& to) {
        if (!std::exchange(*is_out, true)) append(to, content.data(), content.size());
      });
}

/// Makes the members of one matrix. Memory: what the members ask for, one piece at a time.
class MatrixMembers {
 public:
  MatrixMembers(BlockWalk& walk, const ArrayElements& elements)
      : walk_(walk), elements_(elements), shape_(walk.shape()), m_(walk.m()) {
    for (walk_.rewind(); walk_.next();) {
      ++num_blocks_;
      for_each_element([&](std::uint64_t, std::uint64_t, std::uint32_t) { ++num_elements_; });
    }
    const std::uint64_t largest = std::max({shape_.rows, shape_.columns, num_blocks_, num_elements_});
    index_bytes_ = largest <= INT32_MAX ? 4 : 8;
  }

  std::vector<ZipMember> blocks() {
    const std::uint64_t block_rows = shape_.rows / m_;
    return {names("bsr"), sizes(), index_array("indices", num_blocks_, [this](Bytes& to) { put_columns(to); }),
            index_array("indptr", block_rows + 1, [this](Bytes& to) { put_bounds(to); }),
            array_member(
                "data", elements_.descr(), {num_blocks_, m_, m_}, elements_.item_bytes(), [this] { rewind(); },
                [this](Bytes& to) { put_blocks(to); })};
  }

  std::vector<ZipMember> triples() {
    return {
        names("coo"), sizes(),
        index_array("row", num_elements_, triple([this](Bytes& to, std::uint64_t row, std::uint64_t, std::uint32_t) {
                      append(to, &row, index_bytes_);
                    })),
        index_array("col", num_elements_, triple([this](Bytes& to, std::uint64_t, std::uint64_t column, std::uint32_t) {
                      append(to, &column, index_bytes_);
                    })),
        array_member(
            "data", elements_.descr(), {num_elements_}, elements_.item_bytes(), [this] { rewind(); },
            triple([this](Bytes& to, std::uint64_t, std::uint64_t, std::uint32_t value) {
              to.resize(to.size() + elements_.item_bytes());
              elements_.put(to.data() + to.size() - elements_.item_bytes(), {&value, 1});
            }))};
  }

 private:
  static ZipMember names(const std::string& format) { return constant_member("format", "|S3", {}, format); }

  [[nodiscard]] ZipMember sizes() const {
    std::string bytes(16, '\0');
    std::memcpy(bytes.data(), &shape_.rows, 8);
    std::memcpy(bytes.data() + 8, &shape_.columns, 8);
    return constant_member("shape", "<i8", {2}, bytes);
  }

  ZipMember index_array(const std::string& name, std::uint64_t size, More more) {
    return array_member(
        name, index_bytes_ == 4 ? "<i4" : "<i8", {size}, index_bytes_, [this] { rewind(); }, std::move(more));
  }

  void rewind() {
    walk_.rewind();
    next_bound_ = 0;
    blocks_before_ = 0;
    has_block_ = false;
  }

  /// visit(row, column, value) for each element of the current block that is not zero, inside the shape.
  template <class Visit>
  void for_each_element(const Visit& visit) const {
    for (std::uint32_t r = 0; r < walk_.rows_inside(); ++r) {
      for (std::uint32_t c = 0; c < walk_.columns_inside(); ++c) {
        const std::uint32_t value = walk_.elements()[std::size_t{r} * m_ + c];
        if (value != 0) visit(std::uint64_t{walk_.at().i} * m_ + r, std::uint64_t{walk_.at().j} * m_ + c, value);
      }
    }
  }

  template <class Put>
  More triple(const Put& put) {
    return [this, put](Bytes& to) {
      while (to.size() < kPieceBytes && walk_.next()) {
        for_each_element(
            [&](std::uint64_t row, std::uint64_t column, std::uint32_t value) { put(to, row, column, value); });
      }
    };
  }

  void put_columns(Bytes& to) {
    while (to.size() < kPieceBytes && walk_.next()) {
      const std::uint64_t column = walk_.at().j;
      append(to, &column, index_bytes_);
    }
  }

  /// Entry r: the number of blocks in block rows before r.
  void put_bounds(Bytes& to) {
    if (next_bound_ == 0) has_block_ = walk_.next();
    for (; to.size() < kPieceBytes && next_bound_ <= shape_.rows / m_; ++next_bound_) {
      for (; has_block_ && walk_.at().i < next_bound_; has_block_ = walk_.next()) ++blocks_before_;
      append(to, &blocks_before_, index_bytes_);
    }
  }

  void put_blocks(Bytes& to) {
    const std::size_t bytes = std::size_t{m_} * m_ * elements_.item_bytes();
    while (to.size() < kPieceBytes && walk_.next()) {
      to.resize(to.size() + bytes);
      elements_.put(to.data() + to.size() - bytes, walk_.elements());
    }
  }

  BlockWalk& walk_;
  const ArrayElements& elements_;
  MatrixShape shape_;
  std::uint32_t m_;
  std::uint64_t num_blocks_ = 0;
  std::uint64_t num_elements_ = 0;
  std::size_t index_bytes_ = 4;  ///< little-endian: the first bytes of a number of 64 bits
  std::uint64_t next_bound_ = 0;
  std::uint64_t blocks_before_ = 0;
  bool has_block_ = false;
};

}  // namespace

const char* write_npz(const std::filesystem::path& path, BlockWalk& walk, const ArrayElements& elements,
                      bool deflated) {
  MatrixMembers members(walk, elements);
  const auto named = [&](std::vector<ZipMember> all) {
    for (ZipMember& member : all) member.from = walk.matrix().file.name();
    return all;
  };
  const bool whole_blocks = walk.shape().rows % walk.m() == 0 && walk.shape().columns % walk.m() == 0;
  write_zip(path, named(whole_blocks ? members.blocks() : members.triples()), deflated);
  return whole_blocks ? "bsr" : "coo";
}

}  // namespace spmm::tools
