// The readers of spmm-convert: .npy, .mtx and .npz, through a whole conversion to /dev/null.
#include <array>

#include "fuzz/fuzz_support.hpp"
#include "io/crc32.hpp"
#include "tools/convert/convert_file.hpp"

namespace spmm::fuzz {
namespace {

void convert(std::uint8_t mode, std::string_view content, tools::FileFormat format) {
  static ScratchFile scratch;
  tools::ConvertOptions options;
  options.in = scratch.holding(content);
  options.out = "/dev/null";
  options.from = format;
  options.transposed = (mode & 1) != 0;
  options.auto_block = (mode & 2) != 0;
  options.rule = {.scale = (mode & 4) != 0 ? 0.5 : 1, .round = (mode & 8) != 0, .saturate = (mode & 16) != 0};
  if ((mode & 32) != 0) options.block = 1u + (mode >> 6);
  accepted([&] { tools::convert_file(options); });
}

void append_u16(std::string& to, std::size_t value) {
  to += static_cast<char>(value & 0xFF);
  to += static_cast<char>(value >> 8 & 0xFF);
}

/// The fields that the local head of a member and its entry in the directory share.
void append_member_head(std::string& to, const std::string& name, std::string_view content, std::uint32_t claimed) {
  append_u16(to, 20);  // version needed
  append_u16(to, 0);   // flags
  append_u16(to, 0);   // stored
  append_u32(to, 0x00210000);
  append_u32(to, io::crc32(0, std::as_bytes(std::span(content))));
  append_u32(to, static_cast<std::uint32_t>(content.size()));
  append_u32(to, claimed);
  append_u16(to, name.size());
  append_u16(to, 0);  // extra
}

/// An archive of stored members with right checksums. Input: for each its number, two bytes of length, the content.
std::string archive_of(InputBytes& in) {
  static const std::array<std::string, 8> kNames = {"format.npy", "shape.npy", "data.npy", "indices.npy",
                                                    "indptr.npy", "row.npy",   "col.npy",  "other"};
  std::string files;
  std::string directory;
  std::size_t count = 0;
  for (; !in.empty() && count < 16; ++count) {
    const std::uint8_t number = in.u8();
    const std::string& name = kNames[number % kNames.size()];
    const std::size_t length = in.u16();
    const std::string_view content = text_of(in.take(length));
    const auto claimed = static_cast<std::uint32_t>(content.size() + ((number & 64) != 0 ? 1u << 20 : 0));
    const std::size_t at = files.size();
    append_u32(files, 0x04034B50);
    append_member_head(files, name, content, claimed);
    files += name;
    files += content;
    append_u32(directory, 0x02014B50);
    append_u16(directory, 20);  // version made by
    append_member_head(directory, name, content, claimed);
    directory.append(10, '\0');  // comment, disk, attributes
    append_u32(directory, static_cast<std::uint32_t>(at));
    directory += name;
  }
  std::string archive = files + directory;
  append_u32(archive, 0x06054B50);
  append_u32(archive, 0);
  append_u16(archive, count);
  append_u16(archive, count);
  append_u32(archive, static_cast<std::uint32_t>(directory.size()));
  append_u32(archive, static_cast<std::uint32_t>(files.size()));
  append_u16(archive, 0);
  return archive;
}

}  // namespace

void fuzz_npy(Bytes bytes) {
  InputBytes in(bytes);
  const std::uint8_t mode = in.u8();
  convert(mode, text_of(in.rest()), tools::FileFormat::npy);
}

void fuzz_mtx(Bytes bytes) {
  InputBytes in(bytes);
  const std::uint8_t mode = in.u8();
  convert(mode, text_of(in.rest()), tools::FileFormat::mtx);
}

void fuzz_npz(Bytes bytes) {
  InputBytes in(bytes);
  const std::uint8_t mode = in.u8();
  const bool is_archive = in.flag();
  convert(mode, is_archive ? std::string(text_of(in.rest())) : archive_of(in), tools::FileFormat::npz);
}

}  // namespace spmm::fuzz
