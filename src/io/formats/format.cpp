// Headers and sizes of matrix files, checked.
#include "io/formats/format.hpp"

#include <bit>

#include "base/records/errors.hpp"
#include "base/text.hpp"
#include "io/formats/foreign_format.hpp"
#include "spmm/error.hpp"

namespace spmm {

namespace {

/// Values: place(offset) = where the field at that offset of a file is.
template <class Place>
void check_shape(const MatrixHeader& header, const Place& place) {
  constexpr const char* kCheckFields = "check n, m and the number of blocks: little-endian integers of 32 bits";
  const auto [n, m, num_blocks] = header;
  const auto refuse = [&](std::uint64_t offset, const std::string& problem, const char* hint) {
    throw FormatError(place(offset), problem, hint);
  };
  if (m == 0) refuse(4, text("block side m is 0, expected 1 to ", kMaxBlockDim), kCheckFields);
  if (m > kMaxBlockDim) {
    refuse(4, text("block side m is ", m, ", expected 1 to ", kMaxBlockDim),
           "store the matrix with smaller blocks; if it has them, check that m is little-endian");
  }
  if (n == 0) refuse(0, text("matrix side n is 0, expected a positive multiple of m = ", m), kCheckFields);
  if (n % m != 0) {
    refuse(0, text("matrix side n is ", n, ", expected a multiple of m = ", m),
           "pad the matrix with zeros to a multiple of the block side");
  }
  const std::uint64_t side = header.blocks_per_side();
  if (num_blocks > side * side) {
    refuse(8, text("number of blocks is ", num_blocks, ", expected at most ", side * side, " = (n / m)^2"),
           "correct the number, and store each block once");
  }
}

/// Checks the length of a file against its (valid) header. Errors: FormatError.
void check_length(const MatrixHeader& header, ElementType type, std::uint64_t found_bytes, const std::string& name) {
  const std::uint64_t record = record_bytes(type, header.m);
  const std::uint64_t expected = io::file_bytes_of(type, header);
  if (found_bytes == expected) return;
  const std::string wanted = text("expected ", expected, " bytes for ", header.num_blocks, " records of ", record,
                                  " bytes (n = ", header.n, ", m = ", header.m, ")");
  const ElementType other = type == ElementType::u16 ? ElementType::u32 : ElementType::u16;
  if (found_bytes == io::file_bytes_of(other, header)) {
    throw FormatError(
        at_offset(name, kHeaderBytes),
        text("the file has ", found_bytes, " bytes, which fits elements of ", other == ElementType::u16 ? 16 : 32,
             " bits", type == ElementType::u16 ? ", a result; " : "; ", wanted),
        type == ElementType::u16
            ? io::operand_hint(name) + "; or create the file again if it is cut off"
            : "give a result (32-bit elements), not an input matrix; or create the file again if it is cut off");
  }
  if (found_bytes < expected) {
    throw FormatError(at_record(name, (found_bytes - kHeaderBytes) / record, record),
                      text("the file ends at byte offset ", found_bytes, ", ", wanted),
                      "create or copy the file again: it is cut off, or the header claims too many blocks");
  }
  throw FormatError(at_offset(name, expected),
                    text(found_bytes - expected, " bytes too many: the file has ", found_bytes, " bytes, ", wanted),
                    "remove what follows the last record, or correct the number of blocks in the header");
}

}  // namespace

void validate_header(const MatrixHeader& header, const std::string& name) {
  check_shape(header, [&](std::uint64_t offset) { return at_offset(name, offset); });
}

namespace io {

MatrixHeader decode_header(const HeaderBytes& bytes) {
  static_assert(sizeof(MatrixHeader) == kHeaderBytes);
  return std::bit_cast<MatrixHeader>(bytes);
}

HeaderBytes encode_header(const MatrixHeader& header) {
  return std::bit_cast<HeaderBytes>(header);
}

void throw_no_header(std::uint64_t found_bytes, const std::string& name) {
  throw FormatError(at_offset(name, found_bytes),
                    text("the file has ", found_bytes, " bytes, expected at least the ", kHeaderBytes,
                         " bytes of the header (n, m, number of blocks)"),
                    "create or copy the file again");
}

void check_header(const HeaderBytes& bytes, ElementType type, std::uint64_t found_bytes, const std::string& name) {
  const MatrixHeader header = decode_header(bytes);
  try {
    validate_header(header, name);
    check_length(header, type, found_bytes, name);
  } catch (const FormatError&) {
    reject_foreign_format(bytes, name);
    throw;
  }
}

void throw_changed_length(std::uint64_t found_bytes, std::uint64_t expected_bytes, const std::string& name) {
  throw FormatError(
      at_offset(name, found_bytes < expected_bytes ? found_bytes : expected_bytes),
      text("the file changed its length while it was read: now ", found_bytes, " bytes, expected ", expected_bytes),
      "run again when no other program writes the file");
}

void check_memory_shape(const MatrixHeader& header, const std::string& name) {
  check_shape(header, [&](std::uint64_t) { return name; });
}

}  // namespace io
}  // namespace spmm
