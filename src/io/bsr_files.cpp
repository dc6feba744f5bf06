// Block-CSR arrays from and to files.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "io/files/output_file.hpp"
#include "io/memory/bsr_records.hpp"
#include "spmm/arrays.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kPackedBytes = 4u << 20;  // enough to hide the cost of a call, small compared with any matrix

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

template <class T>
void write_arrays(const std::filesystem::path& path, const BsrView<T>& matrix, const std::string& name) {
  io::check_bsr_sides(matrix.rows, matrix.cols, matrix.m, name);
  const io::BsrRecords<T> records(
      matrix, static_cast<std::uint32_t>(std::max<std::uint64_t>({matrix.rows, matrix.cols, matrix.m})), name);
  records.check_distinct(name);
  const std::uint64_t record = record_bytes<T>(matrix.m);
  const std::uint64_t total = records.header().num_blocks;
  const std::uint64_t per_chunk = std::max<std::uint64_t>(1, kPackedBytes / record);
  std::vector<std::byte> chunk(std::min(per_chunk, total) * record);
  io::OutputFile file(path, {});
  file.expect_bytes(kHeaderBytes + total * record);
  for (std::uint64_t first = 0; first < total; first += per_chunk) {
    const std::uint64_t count = std::min(per_chunk, total - first);
    records.pack(first, count, chunk.data());
    file.write_at(kHeaderBytes + first * record, {chunk.data(), count * record});
  }
  file.finish(records.header());
  file.publish();
}

}  // namespace

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
