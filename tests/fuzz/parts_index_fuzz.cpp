// The index of a result in parts.
#include "fuzz/fuzz_support.hpp"
#include "io/formats/json_text.hpp"
#include "io/formats/parts_index.hpp"

namespace spmm::fuzz {

void fuzz_parts_index(Bytes bytes) {
  const std::string content(text_of(bytes));
  io::JsonReader(content).skip();
  accepted([&] {
    const io::PartsIndex index = io::parse_index(content, "index.json");
    std::uint64_t blocks = 0;
    for (const ResultPart& part : index.parts) {
      require(io::is_part_file_name(part.file) && part.file.find('/') == std::string::npos,
              "parts lie in the folder of the index");
      require(part.row_begin <= part.row_end && part.row_end <= index.n / index.m, "rows lie within the matrix");
      blocks += part.num_blocks;
    }
    require(blocks == index.num_blocks, "the blocks of the parts are those of the whole");
    const std::string written = io::index_text(index);
    require(io::index_text(io::parse_index(written, "index.json")) == written, "an index is read as it was written");
  });
}

}  // namespace spmm::fuzz
