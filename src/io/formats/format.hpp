// The file format: header bytes, sizes, and the refusal of what breaks it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "spmm/io.hpp"
#include "spmm/types.hpp"

namespace spmm::io {

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

MatrixHeader decode_header(const HeaderBytes& bytes);
HeaderBytes encode_header(const MatrixHeader& header);

/// Bytes of a whole file; fits 64 bits for every valid header.
constexpr std::uint64_t file_bytes_of(ElementType type, const MatrixHeader& header) {
  return kHeaderBytes + header.num_blocks * record_bytes(type, header.m);
}

/// Checks a header and the length of its file. Errors: FormatError; one that names spmm-convert where the file is none
/// of this format but of another program.
void check_header(const HeaderBytes& bytes, ElementType type, std::uint64_t found_bytes, const std::string& name);

/// Errors: always FormatError; the file has fewer bytes than a header.
[[noreturn]] void throw_no_header(std::uint64_t found_bytes, const std::string& name);

/// Errors: always FormatError; the length of the file is not the one that was checked when it was opened.
[[noreturn]] void throw_changed_length(std::uint64_t found_bytes, std::uint64_t expected_bytes,
                                       const std::string& name);

/// validate_header() for a matrix in memory: the place is its name alone. Errors: FormatError.
void check_memory_shape(const MatrixHeader& header, const std::string& name);

}  // namespace spmm::io
