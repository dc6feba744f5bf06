// The reader of spmm-convert, through a whole conversion to /dev/null.
#include "fuzz/fuzz_support.hpp"
#include "tools/convert/convert.hpp"

namespace spmm::fuzz {
namespace {

void convert(std::uint8_t mode, std::string_view content) {
  static ScratchFile scratch;
  tools::ConvertOptions options;
  options.in = scratch.holding(content);
  options.out = "/dev/null";
  options.from_mtx = true;
  options.auto_block = (mode & 2) != 0;
  options.rule = {.scale = (mode & 4) != 0 ? 0.5 : 1, .round = (mode & 8) != 0, .saturate = (mode & 16) != 0};
  if ((mode & 32) != 0) options.block = 1u + (mode >> 6);
  accepted([&] { tools::convert_file(options); });
}

}  // namespace

void fuzz_mtx(Bytes bytes) {
  InputBytes in(bytes);
  const std::uint8_t mode = in.u8();
  convert(mode, text_of(in.rest()));
}

}  // namespace spmm::fuzz
