// Whole matrices from and to files, as lists of blocks and as block-CSR arrays.
#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <numeric>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "base/text.hpp"
#include "io/files/input_file.hpp"
#include "io/files/output_file.hpp"
#include "io/memory/array_sources.hpp"
#include "spmm/arrays.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm {
namespace {

using io::InputFile;

constexpr std::uint64_t kChunkBytes = 4u << 20;  // enough to hide the cost of a call, small compared with any matrix

/// Refuses a block that is stored more than once. Errors: FormatError that names its first two records.
void check_distinct(const InputFile& file, const std::vector<BlockIndex>& index) {
  const auto ascends = [&](std::uint32_t x, std::uint32_t y) {
    return index[x] != index[y] ? index[x] < index[y] : x < y;
  };
  if (std::adjacent_find(index.begin(), index.end(), std::greater_equal<>()) == index.end()) return;
  std::vector<std::uint32_t> order(index.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), ascends);
  const auto twice = std::adjacent_find(order.begin(), order.end(),
                                        [&](std::uint32_t x, std::uint32_t y) { return index[x] == index[y]; });
  if (twice == order.end()) return;
  throw_duplicate_block(file, twice[0], twice[1], index[*twice]);
}

template <class T>
BlockList<T> read_list(const std::filesystem::path& path) {
  const InputFile file(path, kElementType<T>);
  const MatrixHeader& header = file.header();
  const std::uint64_t record = file.record_bytes();
  const std::size_t elements = std::size_t{header.m} * header.m;
  const std::uint32_t side = header.blocks_per_side();
  const std::uint64_t per_chunk = std::max<std::uint64_t>(1, std::min(kChunkBytes, file.file_bytes() / 8) / record);
  try {
    std::vector<std::byte> chunk(std::min<std::uint64_t>(per_chunk, header.num_blocks) * record);
    BlockList<T> matrix;
    matrix.n = header.n;
    matrix.m = header.m;
    matrix.index.reserve(header.num_blocks);
    matrix.values.reserve(header.num_blocks * elements);
    for (std::uint64_t first = 0; first < header.num_blocks; first += per_chunk) {
      const std::uint64_t count = std::min(per_chunk, header.num_blocks - first);
      file.read(first, count, chunk.data());
      const std::byte* src = chunk.data();
      for (std::uint64_t r = first; r < first + count; ++r, src += record) {
        const BlockIndex at = read_index(src);
        if (at.i >= side || at.j >= side) throw_index_out_of_range(file, r, at);
        // A file of holes says the same block again and again: no memory is taken for it.
        if (r > 0 && at == matrix.index.back()) throw_duplicate_block(file, r - 1, r, at);
        matrix.index.push_back(at);
        const std::size_t end = matrix.values.size();
        matrix.values.resize(end + elements);
        std::memcpy(matrix.values.data() + end, src + kIndexBytes, elements * sizeof(T));
      }
    }
    file.check_unchanged();
    check_distinct(file, matrix.index);
    return matrix;
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(file.name(), text("no memory for a matrix of ", human_bytes(file.file_bytes())),
                      "multiply the files directly, which needs less memory, or use a machine with more");
  }
}

/// Writes all records of elements T of a source.
template <class T>
void write_records(const std::filesystem::path& path, const Source& source) {
  const std::uint64_t record = record_bytes<T>(source.header().m);
  const std::uint64_t total = source.header().num_blocks;
  const std::uint64_t per_chunk = std::max<std::uint64_t>(1, kChunkBytes / record);
  std::vector<std::byte> chunk(std::min(per_chunk, total) * record);
  io::OutputFile file(path, {});
  file.expect_bytes(kHeaderBytes + total * record);
  for (std::uint64_t first = 0; first < total; first += per_chunk) {
    const std::uint64_t count = std::min(per_chunk, total - first);
    source.read(first, count, chunk.data());
    file.write_at(kHeaderBytes + first * record, {chunk.data(), count * record});
  }
  file.finish(source.header());
  file.publish();
}

template <class T>
void write_list(const std::filesystem::path& path, const BlockList<T>& matrix) {
  write_records<T>(path, io::BlockSource<T>(matrix.n, matrix.m, matrix.index, matrix.values, path.string()));
}

template <class T>
void write_arrays(const std::filesystem::path& path, const BsrView<T>& matrix, const std::string& name) {
  io::check_bsr_sides(matrix.rows, matrix.cols, matrix.m, name);
  const auto side = static_cast<std::uint32_t>(std::max<std::uint64_t>({matrix.rows, matrix.cols, matrix.m}));
  const io::BsrSource<T> source(matrix, side, name);
  source.check_distinct();
  write_records<T>(path, source);
}

template <class T>
BsrMatrix<T> to_bsr(BlockList<T> list) {
  BsrMatrix<T> matrix{.rows = list.n, .cols = list.n, .m = list.m};
  const std::size_t elements = std::size_t{list.m} * list.m;
  matrix.indptr.assign(std::size_t{list.n} / list.m + 1, 0);
  matrix.indices.reserve(list.index.size());
  if (std::is_sorted(list.index.begin(), list.index.end())) {
    for (const BlockIndex& at : list.index) matrix.indices.push_back(at.j);
    matrix.data = std::move(list.values);
  } else {
    std::vector<std::uint32_t> order(list.index.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t x, std::uint32_t y) { return list.index[x] < list.index[y]; });
    matrix.data.reserve(list.values.size());
    for (const std::uint32_t b : order) {
      matrix.indices.push_back(list.index[b].j);
      matrix.data.insert(matrix.data.end(), list.block(b), list.block(b) + elements);
    }
  }
  for (const BlockIndex& at : list.index) ++matrix.indptr[std::size_t{at.i} + 1];
  std::partial_sum(matrix.indptr.begin(), matrix.indptr.end(), matrix.indptr.begin());
  return matrix;
}

}  // namespace

MatrixHeader read_header(const std::filesystem::path& path, ElementType type) {
  return InputFile(path, type).header();
}

BlockMatrix read_matrix(const std::filesystem::path& path) {
  return read_list<std::uint16_t>(path);
}

ProductMatrix read_product(const std::filesystem::path& path) {
  return read_list<std::uint32_t>(path);
}

void write_matrix(const std::filesystem::path& path, const BlockMatrix& matrix) {
  write_list(path, matrix);
}

void write_product(const std::filesystem::path& path, const ProductMatrix& matrix) {
  write_list(path, matrix);
}

template <>
BsrMatrix<std::uint16_t> read_bsr<std::uint16_t>(const std::filesystem::path& path) {
  return to_bsr(read_matrix(path));
}

template <>
BsrMatrix<std::uint32_t> read_bsr<std::uint32_t>(const std::filesystem::path& path) {
  return to_bsr(read_product(path));
}

void write_bsr(const std::filesystem::path& path, const BsrView<std::uint16_t>& matrix, const std::string& name) {
  write_arrays(path, matrix, name);
}

void write_bsr(const std::filesystem::path& path, const BsrView<std::uint32_t>& matrix, const std::string& name) {
  write_arrays(path, matrix, name);
}

}  // namespace spmm
