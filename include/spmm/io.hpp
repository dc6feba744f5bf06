// Whole matrices from and to files, and the checks of the format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "spmm/element_types.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm {

/// Checks n, m and num_blocks against each other. Errors: FormatError that names `name` and the byte offset.
void validate_header(const MatrixHeader& header, const std::string& name);

/// Reads the 12-byte header and checks it against the length of the file; reads no record. Values: type = u16, an
/// operand, or u32, a result: the format does not record it, the reader says what it expects. Errors: InputError
/// (cannot open), FormatError (bad header or length), IoError.
MatrixHeader read_header(const std::filesystem::path& path, ElementType type = ElementType::u16);

/// Reads a whole operand. Blocks keep the order of the file; indices are
/// checked, duplicates are refused. Memory: of the matrix, and 4 bytes for each block if they do not ascend. Errors:
/// InputError, FormatError, IoError, OutOfMemory.
BlockMatrix read_matrix(const std::filesystem::path& path);
/// Reads a whole result.
ProductMatrix read_product(const std::filesystem::path& path);

/// Writes a whole matrix in the order given, atomically (temporary file, rename).
/// Errors: FormatError (header and array sizes; indices are not checked), OutputError, IoError.
void write_matrix(const std::filesystem::path& path, const BlockMatrix& matrix);
/// The same of a result.
void write_product(const std::filesystem::path& path, const ProductMatrix& matrix);

/// Opens a file as a source; the header is checked, nothing else is read. Errors: as read_header().
std::unique_ptr<Source> open_file_source(const std::filesystem::path& path);

/// Wraps a matrix in memory, which must outlive the source. Errors: FormatError.
std::unique_ptr<Source> make_memory_source(const BlockMatrix& matrix, std::string name);

/// How an output file is written.
struct FileSinkOptions {
  bool durable = false;     ///< fsync file and folder around the rename
  bool no_clobber = false;  ///< refuse to replace an existing file
};

/// A sink that writes a temporary file in the folder of `path` and renames it over `path` in publish(). Destroying an
/// unpublished sink removes the temporary file. An existing file keeps its permission bits; a symbolic link stays and
/// what it points to is replaced; a character device (/dev/null) is written in place.
/// Errors: OutputError (cannot create; found before any work is done where possible); append() also OutOfMemory (more
/// than 2^32 - 1 blocks). append(), finish() and publish() in the wrong order are std::logic_error.
/// Threads: a few writer threads write queued slices at their offsets.
std::unique_ptr<Sink> open_file_sink(const std::filesystem::path& path, std::uint32_t m,
                                     const FileSinkOptions& options);

/// A sink that fills `out` (which must outlive it); visible in publish(). Errors: OutOfMemory.
std::unique_ptr<Sink> make_memory_sink(ProductMatrix& out);

}  // namespace spmm
