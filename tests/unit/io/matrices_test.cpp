// Whole matrices and sources: what is written is what is read.
#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <random>

#include "base/run/parallel.hpp"
#include "spmm/arrays.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/wrapped_calls.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;

/// `count` blocks at scattered places in a scattered order, all elements random.
template <class T>
BlockList<T> random_matrix(std::uint32_t n, std::uint32_t m, std::uint32_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  BlockList<T> matrix;
  matrix.n = n;
  matrix.m = m;
  const std::uint64_t side = n / m;
  for (std::uint64_t b = 0; b < count; ++b) {
    const std::uint64_t cell = b * 7919 % (side * side);  // 7919 is prime to the sides used here: no block twice
    matrix.index.push_back({static_cast<std::uint32_t>(cell / side), static_cast<std::uint32_t>(cell % side)});
  }
  for (std::uint64_t e = 0; e < std::uint64_t{count} * m * m; ++e) matrix.values.push_back(static_cast<T>(random()));
  return matrix;
}

std::string all_records(const Source& source) {
  std::string bytes(source.header().num_blocks * input_record_bytes(source.header().m), '\0');
  source.read(0, source.header().num_blocks, reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

/// A source of arrays that are not there: only their lengths are read.
void check_sizes(std::uint32_t n, std::uint32_t m, std::uint64_t num_indices, std::uint64_t num_values) {
  const BlockIndex* const index = nullptr;
  const std::uint16_t* const values = nullptr;
  make_block_source({.n = n, .m = m, .index = {index, num_indices}, .values = {values, num_values}}, "matrix A");
}

int num_first_reads = 0;
std::filesystem::path growing;

/// With the first reading the file becomes longer.
ssize_t pread_of_growing(int fd, void* to, size_t size, off_t offset) {
  if (offset == static_cast<off_t>(kHeaderBytes) && num_first_reads++ == 0) {
    std::ofstream(growing, std::ios::app | std::ios::binary) << "more";
  }
  return real_calls.pread(fd, to, size, offset);
}

TEST_CASE("round trips keep every byte and the order") {
  const TemporaryFolder folder;
  const auto path = folder / "x.bin";
  constexpr std::array<std::array<std::uint32_t, 3>, 8> kShapes = {{{1, 1, 0},
                                                                    {1, 1, 1},
                                                                    {64, 64, 1},
                                                                    {12, 3, 16},
                                                                    {320, 4, 1000},
                                                                    {3000, 1, 100'000},
                                                                    {640, 16, 900},
                                                                    {8000, 8, 20'000}}};
  for (const auto& [n, m, count] : kShapes) {
    INFO("n " << n << ", m " << m << ", blocks " << count);
    const auto matrix = random_matrix<std::uint16_t>(n, m, count);
    write_matrix(path, matrix);
    CHECK((bytes_of(path) == file_of(matrix)));
    CHECK((read_matrix(path) == matrix));
    CHECK((read_header(path) == matrix.header()));

    const auto product = random_matrix<std::uint32_t>(n, m, count);
    write_product(path, product);
    CHECK((bytes_of(path) == file_of(product)));
    CHECK((read_product(path) == product));
    CHECK((read_header(path, ElementType::u32) == product.header()));
  }
  CHECK(folder.names() == std::vector<std::string>{"x.bin"});
}

TEST_CASE("block-CSR arrays of a file in any order have its blocks by row and column") {
  const TemporaryFolder folder;
  const auto matrix = random_matrix<std::uint16_t>(320, 4, 1000);
  write_matrix(folder / "x.bin", matrix);
  const BsrMatrix<std::uint16_t> arrays = read_bsr<std::uint16_t>(folder / "x.bin");
  std::map<BlockIndex, std::size_t> blocks;
  for (std::size_t x = 0; x < matrix.index.size(); ++x) blocks[matrix.index[x]] = x;
  std::size_t place = 0;
  for (const auto& [at, x] : blocks) {
    CHECK(arrays.indptr.at(at.i) <= static_cast<std::int64_t>(place));
    CHECK(arrays.indptr.at(at.i + 1) > static_cast<std::int64_t>(place));
    CHECK(arrays.indices.at(place) == at.j);
    CHECK(std::equal(matrix.block(x), matrix.block(x) + 16, arrays.data.data() + 16 * place++));
  }
  CHECK(arrays.data.size() == matrix.values.size());
}

TEST_CASE("file and memory sources give the same records") {
  const TemporaryFolder folder;
  const auto path = folder / "x.bin";
  const auto matrix = random_matrix<std::uint16_t>(400, 4, 3000);
  write_matrix(path, matrix);
  const auto file = open_file_source(path);
  const auto memory = make_memory_source(matrix, "matrix A");
  CHECK(file->name() == path.string());
  CHECK(memory->name() == "matrix A");
  const std::string expected = file_of(matrix).substr(kHeaderBytes);
  const std::size_t record = input_record_bytes(4);
  for (const Source* source : {file.get(), memory.get()}) {
    CHECK((source->header() == matrix.header()));
    CHECK((all_records(*source) == expected));
    std::string piece(5 * record, '?');
    source->read(2995, 5, reinterpret_cast<std::byte*>(piece.data()));
    CHECK((piece == expected.substr(2995 * record)));
    source->read(3000, 0, nullptr);
    CHECK_THROWS_AS(source->read(2996, 5, reinterpret_cast<std::byte*>(piece.data())), std::out_of_range);
    CHECK_THROWS_AS(source->read(~0ull, 2, reinterpret_cast<std::byte*>(piece.data())), std::out_of_range);

    std::string shared(expected.size(), '?');  // many threads at once, pieces of odd size
    parallel_for(8, 3000, 17, [&](std::uint64_t begin, std::uint64_t end) {
      source->read(begin, end - begin, reinterpret_cast<std::byte*>(shared.data() + begin * record));
    });
    CHECK((shared == expected));
    CHECK_NOTHROW(source->check_unchanged());
  }
}

TEST_CASE("a matrix in memory that does not fit itself is refused") {
  const TemporaryFolder folder;
  const BlockMatrix good = random_matrix<std::uint16_t>(8, 4, 3);
  const auto refused = [&](BlockMatrix bad, const std::string& part) {
    const std::string message = message_of<FormatError>([&] { make_memory_source(bad, "matrix A"); });
    INFO(message);
    CHECK(names_place_and_hint(message, "matrix A"));
    CHECK(has(message, part));
    CHECK_THROWS_AS(write_matrix(folder / "x.bin", bad), FormatError);
  };
  BlockMatrix bad = good;
  bad.values.pop_back();
  refused(bad, "47 values for 3 blocks, expected 48");
  bad = good;
  bad.values.push_back(1);
  refused(bad, "49 values");
  bad = good;
  bad.index.pop_back();
  refused(bad, "48 values for 2 blocks");
  bad = good;
  bad.m = 0;
  refused(bad, "m is 0");
  bad = good;
  bad.n = 9;
  refused(bad, "multiple");
  bad = good;
  bad.n = 4;
  refused(bad, "at most 1");
  CHECK(folder.names().empty());
}

TEST_CASE("a file that changes its length while it is read is refused") {
  const TemporaryFolder folder;
  const auto path = folder / "x.bin";
  const auto matrix = random_matrix<std::uint16_t>(400, 4, 3000);
  write_matrix(path, matrix);
  const std::uint64_t size = std::filesystem::file_size(path);
  const auto source = open_file_source(path);
  std::string buffer(size, '?');
  auto* const dst = reinterpret_cast<std::byte*>(buffer.data());

  std::filesystem::resize_file(path, size + 1);
  CHECK_NOTHROW(source->read(0, 3000, dst));
  const std::string grown = message_of<FormatError>([&] { source->check_unchanged(); });
  CHECK(names_place_and_hint(grown, path));
  CHECK(has(grown, "now " + std::to_string(size + 1) + " bytes, expected " + std::to_string(size)));

  std::filesystem::resize_file(path, size - 1);
  CHECK_NOTHROW(source->read(0, 2999, dst));
  const std::string shrunk = message_of<FormatError>([&] { source->read(2999, 1, dst); });
  CHECK(names_place_and_hint(shrunk, path));
  CHECK(has(shrunk, "now " + std::to_string(size - 1) + " bytes"));
  CHECK_THROWS_AS(source->check_unchanged(), FormatError);

  std::filesystem::resize_file(path, 0);
  CHECK_THROWS_AS(source->read(0, 1, dst), FormatError);
}

TEST_CASE("memory sink: records become a matrix when published") {
  const auto product = random_matrix<std::uint32_t>(320, 4, 500);
  const std::string records = file_of(product).substr(kHeaderBytes);
  const std::size_t record = output_record_bytes(4);
  ProductMatrix out = random_matrix<std::uint32_t>(8, 8, 1);
  const ProductMatrix old = out;
  int releases = 0;
  const auto fill = [&](Sink& sink) {
    for (std::size_t at = 0, count = 0; at < records.size(); at += count * record, ++releases) {
      count = std::min<std::size_t>(1 + at / record % 7, (records.size() - at) / record);
      std::string copy = records.substr(at, count * record);  // may go as soon as release is called
      bool released = false;
      sink.write(at / record, std::as_bytes(std::span(copy)), [&] { released = !released; });
      REQUIRE(released);
    }
  };
  {
    const auto sink = make_memory_sink(out);
    sink->expect(4, 2000);  // more than there will be
    fill(*sink);
    CHECK_THROWS_AS(sink->publish(), std::logic_error);
    CHECK_THROWS_AS(sink->finish({.n = 320, .m = 4, .num_blocks = 499}), std::logic_error);
    sink->finish(product.header());
    CHECK((out == old));
  }
  CHECK((out == old));
  const auto sink = make_memory_sink(out);
  sink->expect(4, 0);
  fill(*sink);
  sink->finish(product.header());
  sink->publish();
  CHECK((out == product));
  CHECK(releases > 100);

  const auto empty = make_memory_sink(out);
  empty->finish({.n = 16, .m = 4, .num_blocks = 0});
  empty->publish();
  CHECK((out.header() == MatrixHeader{.n = 16, .m = 4, .num_blocks = 0}));
}

TEST_CASE("a matrix of 2^32 blocks is one too many") {
  constexpr std::uint32_t kSide = 1u << 20;
  constexpr std::uint64_t kMost = 0xFFFF'FFFFu;
  CHECK_NOTHROW(check_sizes(kSide, 1, kMost, kMost));
  const std::string message = message_of<FormatError>([] { check_sizes(kSide, 1, kMost + 1, kMost + 1); });
  CHECK(has(message, "the matrix has 4294967296 blocks, expected at most 4294967295"));
}

TEST_CASE("values are counted in 64 bits") {
  constexpr std::uint64_t kBlocks = 1u << 28;  // times 4 * 4: 2^32
  CHECK_NOTHROW(check_sizes(1u << 17, 4, kBlocks, kBlocks * 16));
  CHECK_THROWS_AS(check_sizes(1u << 17, 4, kBlocks, 0), FormatError);
}

TEST_CASE("no matrix is returned of a file that grew while it was read") {
  const TemporaryFolder folder;
  growing = folder / "a.bin";
  write_bytes(growing, header_bytes(4, 2, 2) + record16(2, 0, 1) + record16(2, 1, 0));
  const CallsRestored table;
  system_calls.pread = pread_of_growing;
  num_first_reads = 0;
  const std::string message = message_of<FormatError>([&] { read_matrix(growing); });
  CHECK(has(message, "a.bin"));
  CHECK(num_first_reads == 1);
}

}  // namespace
