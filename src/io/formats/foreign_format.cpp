// Files of other programs by their first bytes.
#include "io/formats/foreign_format.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::io {
namespace {

bool begins_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// "a.bin" for "a.mtx".
std::string converted_name(const std::string& name) {
  return std::filesystem::path(name).replace_extension(".bin").string();
}

/// The program that converts files of this format, or with this ending.
const char* converter(bool is_numpy) {
  return is_numpy ? "python3 -m spmm convert " : "spmm-convert ";
}

/// What a command needs in front of a name that would be an option.
const char* dashes_before(const std::string& name) {
  return name.substr(0, 1) == "-" ? "-- " : "";
}

}  // namespace

ForeignFormat find_foreign_format(std::span<const std::byte> first_bytes) {
  if (begins_with(first_bytes, "%%MatrixM")) return ForeignFormat::matrix_market;
  if (begins_with(first_bytes, "\x93NUMPY")) return ForeignFormat::npy;
  if (begins_with(first_bytes, "PK\x03\x04")) return ForeignFormat::npz;
  if (begins_with(first_bytes, "\x1F\x8B\x08")) return ForeignFormat::gzip;
  if (begins_with(first_bytes, "\x89HDF\r\n\x1A\n")) return ForeignFormat::hdf5;
  // No file of ours: a block side of such bytes is too large.
  const bool is_text = std::all_of(first_bytes.begin(), first_bytes.end(), [](std::byte byte) {
    const auto c = static_cast<unsigned char>(byte);
    return (c >= 0x20 && c < 0x7F) || c == '\t' || c == '\n' || c == '\r';
  });
  if (is_text && !first_bytes.empty()) return ForeignFormat::text;
  return ForeignFormat::none;
}

const char* foreign_format_name(ForeignFormat format) {
  switch (format) {
    case ForeignFormat::matrix_market:
      return "a Matrix Market file";
    case ForeignFormat::npy:
      return "a NumPy array (.npy)";
    case ForeignFormat::npz:
      return "a zip archive, such as SciPy's .npz";
    case ForeignFormat::hdf5:
      return "an HDF5 file";
    case ForeignFormat::text:
      return "a text file";
    default:
      return "a block-sparse matrix file";
  }
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "_-./+:,@%";
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

void reject_foreign_format(std::span<const std::byte> first_bytes, const std::string& name) {
  const ForeignFormat format = find_foreign_format(first_bytes);
  if (format == ForeignFormat::none) return;
  if (format == ForeignFormat::gzip) {
    const std::filesystem::path path = name;
    const std::string unpacked =
        path.extension() == ".gz" ? (path.parent_path() / path.stem()).string() : name + ".unpacked";
    throw FormatError(
        name, "is compressed by gzip, expected a matrix file",
        text("unpack it first: gzip -dc < ", shell_word(name), " > ", shell_word(unpacked), " (an archive: tar -xzf)"));
  }
  if (format == ForeignFormat::hdf5 || format == ForeignFormat::text) {
    const bool is_text = format == ForeignFormat::text;
    throw FormatError(name, text("is ", foreign_format_name(format), ", expected a block-sparse matrix file"),
                      is_text
                          ? "write it as Matrix Market (scipy.io.mmwrite) and convert that: spmm-convert A.mtx A.bin"
                          : "write its matrix as .npz (scipy.sparse.save_npz) and convert that: python3 -m spmm "
                            "convert A.npz A.bin");
  }
  const std::string out = converted_name(name) == name ? name + ".bin" : converted_name(name);
  throw FormatError(name, text("is ", foreign_format_name(format), ", expected a block-sparse matrix file"),
                    text("convert it first: ", converter(format != ForeignFormat::matrix_market), dashes_before(name),
                         shell_word(name), " ", shell_word(out)));
}

std::string operand_hint(const std::string& result_name) {
  const std::filesystem::path path = result_name;
  const std::string& name = result_name;
  const std::string out = (path.parent_path() / (path.stem().string() + "16.bin")).string();
  return text("make an operand of the result: spmm-convert ", dashes_before(name), shell_word(name), " ",
              shell_word(out), " (elements above 65535 do not fit)");
}

void reject_foreign_ending(const std::string& out) {
  const std::filesystem::path path = out;
  // What each ending is converted to; texts and HDF5 are what other programs make of that.
  constexpr std::pair<std::string_view, const char*> kEndings[] = {{".mtx", ".mtx"}, {".npy", ".npy"}, {".npz", ".npz"},
                                                                   {".txt", ".mtx"}, {".csv", ".mtx"}, {".h5", ".npz"},
                                                                   {".hdf5", ".npz"}};
  const std::string ending = path.extension().string();
  const auto* const found =
      std::find_if(std::begin(kEndings), std::end(kEndings), [&](const auto& one) { return one.first == ending; });
  if (found == std::end(kEndings)) return;
  const std::string name = path.string();
  const std::string binary = converted_name(name);
  const std::string converted = std::filesystem::path(path).replace_extension(found->second).string();
  throw UsageError(
      name, text("ends in ", ending, ", but the output is a block-sparse matrix file"),
      text("write ", shell_word(binary), ", then convert it: ", converter(std::string_view(found->second) != ".mtx"),
           dashes_before(binary), shell_word(binary), " ", shell_word(converted)));
}

}  // namespace spmm::io
