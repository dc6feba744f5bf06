// Files of other programs by their first bytes.
#include "io/formats/foreign_format.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::io {
namespace {

namespace fs = std::filesystem;

/// A format by the bytes that its files begin with, and what messages call it.
struct Foreign {
  ForeignFormat format;
  std::string_view beginning;
  const char* name;
};

constexpr Foreign kFormats[] = {{ForeignFormat::matrix_market, "%%MatrixM", "a Matrix Market file"},
                                {ForeignFormat::npy, "\x93NUMPY", "a NumPy array (.npy)"},
                                {ForeignFormat::npz, "PK\x03\x04", "a zip archive, such as SciPy's .npz"},
                                {ForeignFormat::gzip, "\x1F\x8B\x08", "compressed by gzip"},
                                {ForeignFormat::hdf5, "\x89HDF\r\n\x1A\n", "an HDF5 file"}};

/// How names of files end, and what a result is converted to for them: texts and HDF5 are what other programs make of
/// that.
constexpr std::pair<std::string_view, std::string_view> kEndings[] = {
    {".mtx", ".mtx"}, {".npy", ".npy"}, {".npz", ".npz"}, {".txt", ".mtx"},
    {".csv", ".mtx"}, {".h5", ".npz"},  {".hdf5", ".npz"}};

/// A word of a command as a shell takes it: quoted where it holds anything but plain characters.
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

/// "spmm-convert a.mtx a.bin", or the command of Python.
std::string conversion(const std::string& from, const std::string& to, bool is_numpy) {
  const char* const dashes = from.starts_with('-') ? "-- " : "";  // else the name would be an option
  return text(is_numpy ? "python3 -m spmm convert " : "spmm-convert ", dashes, shell_word(from), " ", shell_word(to));
}

}  // namespace

ForeignFormat find_foreign_format(std::span<const std::byte> first_bytes) {
  const std::string_view begin(reinterpret_cast<const char*>(first_bytes.data()), first_bytes.size());
  for (const Foreign& foreign : kFormats) {
    if (begin.starts_with(foreign.beginning)) return foreign.format;
  }
  // No file of ours: a block side of such bytes is too large.
  const bool is_text = !begin.empty() && std::all_of(begin.begin(), begin.end(), [](unsigned char c) {
    return (c >= 0x20 && c < 0x7F) || c == '\t' || c == '\n' || c == '\r';
  });
  return is_text ? ForeignFormat::text : ForeignFormat::none;
}

void reject_foreign_format(std::span<const std::byte> first_bytes, const std::string& name) {
  const ForeignFormat format = find_foreign_format(first_bytes);
  if (format == ForeignFormat::none) return;
  const fs::path path = name;
  const std::string out =
      path.extension() == ".bin" ? name + ".bin" : fs::path(path).replace_extension(".bin").string();
  std::string hint = "convert it first: " + conversion(name, out, format != ForeignFormat::matrix_market);
  if (format == ForeignFormat::gzip) {
    const std::string unpacked =
        path.extension() == ".gz" ? fs::path(path).replace_extension().string() : name + ".out";
    hint =
        text("unpack it first: gzip -dc < ", shell_word(name), " > ", shell_word(unpacked), " (an archive: tar -xzf)");
  } else if (format == ForeignFormat::text) {
    hint = "write it as Matrix Market (scipy.io.mmwrite) and convert that: spmm-convert A.mtx A.bin";
  } else if (format == ForeignFormat::hdf5) {
    hint = "write its matrix as .npz (scipy.sparse.save_npz) and convert that: python3 -m spmm convert A.npz A.bin";
  }
  std::string what = "a text file";
  for (const Foreign& foreign : kFormats) {
    if (foreign.format == format) what = foreign.name;
  }
  throw FormatError(name, text("is ", what, ", expected a block-sparse matrix file"), hint);
}

std::string operand_hint(const std::string& result_name) {
  const fs::path path = result_name;
  const fs::path out = path.parent_path() / (path.stem().string() + "16.bin");
  return text("make an operand of the result: ", conversion(result_name, out.string(), false),
              " (elements above 65535 do not fit)");
}

void reject_foreign_ending(const std::string& out) {
  const fs::path path = out;
  for (const auto& [ending, converted] : kEndings) {
    if (path.extension() != ending) continue;
    const std::string binary = fs::path(path).replace_extension(".bin").string();
    const std::string last = fs::path(path).replace_extension(converted).string();
    throw UsageError(
        out, text("ends in ", ending, ", but the output is a block-sparse matrix file"),
        text("write ", shell_word(binary), ", then convert it: ", conversion(binary, last, converted != ".mtx")));
  }
}

}  // namespace spmm::io
