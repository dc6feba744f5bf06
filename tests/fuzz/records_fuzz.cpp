// Files with good headers and any records through the pipeline of the CPU: it must reject what the reader rejects, and
// multiply the rest as the oracle does.
#include "fuzz/fuzz_support.hpp"
#include "spmm/io.hpp"
#include "support/oracle.hpp"
#include "unit/cpu/run_cpu.hpp"

namespace spmm::fuzz {
namespace {

std::string matrix_file(std::uint32_t side, std::uint32_t m, std::string records, bool keep_indices) {
  const std::uint64_t record = input_record_bytes(m);
  const auto count = std::min<std::uint64_t>(records.size() / record, std::uint64_t{side} * side);
  records.resize(count * record);
  for (std::size_t r = 0; !keep_indices && r < count; ++r) {
    // Two bytes decide about the place; the others become elements of no weight.
    const auto i = static_cast<std::uint8_t>(records[r * record]) % side;
    const auto j = static_cast<std::uint8_t>(records[r * record + 1]) % side;
    std::string index;
    append_u32(index, i);
    append_u32(index, j);
    records.replace(r * record, kIndexBytes, index);
  }
  std::string file;
  append_u32(file, side * m);
  append_u32(file, m);
  append_u32(file, static_cast<std::uint32_t>(count));
  return file + records;
}

}  // namespace

void fuzz_records(Bytes bytes) {
  static ScratchFile file_a;
  static ScratchFile file_b;
  InputBytes in(bytes);
  const std::uint32_t m = 1 + in.below(8);
  const std::uint32_t side = 1 + in.below(24);
  const std::uint8_t mode = in.u8();
  test::Settings settings;
  settings.kernel = (mode & 1) != 0 ? "reference" : "row-merge";
  settings.num_threads = (mode & 2) != 0 ? 2 : 1;
  settings.panel_bytes = std::uint64_t{1} << (in.below(12) + 5);
  const std::size_t half = in.rest().size() / (1 + in.below(4));
  const std::string a(text_of(in.take(half)));
  const std::string b(text_of(in.rest()));
  const std::string& path_a = file_a.holding(matrix_file(side, m, a, (mode & 4) != 0));
  const std::string& path_b = file_b.holding(matrix_file(side, m, b, (mode & 4) != 0));

  ProductMatrix expected;
  const bool is_valid = accepted([&] { expected = test::oracle_multiply(read_matrix(path_a), read_matrix(path_b)); });
  test::MemorySink sink({.n = side * m, .m = m, .num_blocks = 0});
  const bool is_multiplied = accepted([&] {
    test::run_streams(*open_file_source(path_a), *open_file_source(path_b), sink, settings);
    sink.finish({});
  });
  require(is_multiplied == is_valid, "the pipeline rejects what the reader rejects");
  if (is_valid) {
    const ProductMatrix& found = sink.product();
    require(found.index == expected.index && found.values == expected.values, "the product is that of the oracle");
  }
}

}  // namespace spmm::fuzz
