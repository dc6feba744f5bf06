// The input reader: bytes -> header and record checks -> matrix.
#include <cstring>

#include "fuzz/fuzz_support.hpp"
#include "spmm/io.hpp"
#include "support/matrices.hpp"

namespace spmm::fuzz {
namespace {

/// A header whose sizes fit the bytes that follow, except where `bend` says otherwise.
std::string with_header(InputBytes& in, bool wide) {
  const std::uint32_t m = 1 + in.below(9);
  const std::uint32_t side = 1 + in.below(20);
  const std::uint64_t record = wide ? output_record_bytes(m) : input_record_bytes(m);
  const std::uint8_t bend = in.u8();
  std::string records(text_of(in.rest()));
  const auto count = static_cast<std::uint32_t>(records.size() / record);
  if ((bend & 7) != 1) records.resize(count * record);
  for (std::size_t r = 0; (bend & 8) == 0 && r < count; ++r) {
    for (std::size_t at = r * record; at < r * record + kIndexBytes; at += 4) {
      std::uint32_t index = 0;
      std::memcpy(&index, records.data() + at, sizeof index);
      index %= side;
      std::memcpy(records.data() + at, &index, sizeof index);
    }
  }
  std::string file;
  append_u32(file, side * m + ((bend & 7) == 2 ? 1 : 0));
  append_u32(file, m);
  append_u32(file, count + ((bend & 7) == 3 ? 1 : 0));
  return file + records;
}

template <class Read>
void read_and_compare(const std::string& path, const std::string& file, const Read& read) {
  accepted([&] { require(test::file_of(read(path)) == file, "what is accepted is read as it is"); });
}

}  // namespace

void fuzz_matrix_file(Bytes bytes) {
  static ScratchFile scratch;
  InputBytes in(bytes);
  const std::uint8_t mode = in.u8();
  const bool wide = (mode & 1) != 0;
  const std::string file = (mode & 2) != 0 ? std::string(text_of(in.rest())) : with_header(in, wide);
  const std::string& path = scratch.holding(file);
  accepted([&] { read_header(path, wide ? ElementType::u32 : ElementType::u16); });
  if (wide) {
    read_and_compare(path, file, [](const std::string& name) { return read_product(name); });
  } else {
    read_and_compare(path, file, [](const std::string& name) { return read_matrix(name); });
  }
}

}  // namespace spmm::fuzz
