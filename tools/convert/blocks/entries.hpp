// Elements of a matrix as a list: what every foreign format is read into, before blocks are made of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spmm::tools {

/// One stored element. 16 bytes: what bounds the memory of a conversion.
struct MatrixEntry {
  std::uint32_t column = 0;
  std::uint32_t row = 0;
  double value = 0;  ///< whole numbers below 2^53 are exact

  [[nodiscard]] std::uint64_t key() const { return std::uint64_t{row} << 32 | column; }
};
static_assert(sizeof(MatrixEntry) == 16);

/// From here on a double may be another integer, rounded.
inline constexpr double kExactLimit = 0x1p53;

/// Takes the elements that a reader finds, or looks for the places of one of them.
class EntrySink {
 public:
  explicit EntrySink(bool transposed) : transposed_(transposed) {}

  /// Values: place = what the reader needs to find the element again, such as its byte offset.
  void add(std::uint32_t row, std::uint32_t column, double value, std::uint64_t place) {
    if (value == 0) return;  // stored zeros change nothing; a NaN is kept, and rejected later
    if (searching_) return compare(row, column, place);
    if (entries_.size() == entries_.capacity()) grow();
    entries_.push_back({.column = transposed_ ? row : column, .row = transposed_ ? column : row, .value = value});
  }

  /// Takes memory for so many elements at once. Errors: OutOfMemory, before memory is allocated.
  void expect(std::uint64_t num_entries, const std::string& name);

  /// The same for at most so many: memory that is not used is not taken. Nothing if that is more than is free.
  void expect_at_most(std::uint64_t num_entries, const std::string& name);

  [[nodiscard]] std::vector<MatrixEntry>& entries() { return entries_; }
  [[nodiscard]] bool transposed() const { return transposed_; }

  /// From now on add() notes where the element (row, column) is, and takes nothing.
  void search(std::uint32_t row, std::uint32_t column);
  [[nodiscard]] const std::vector<std::uint64_t>& places() const { return places_; }

 private:
  void grow();
  void compare(std::uint32_t row, std::uint32_t column, std::uint64_t place);

  std::vector<MatrixEntry> entries_;
  std::string name_;
  bool transposed_;
  bool searching_ = false;
  std::uint32_t row_ = 0;
  std::uint32_t column_ = 0;
  std::vector<std::uint64_t> places_;  ///< of the element searched for, the first few
};

/// Rows and columns of a matrix that need not be square.
struct MatrixShape {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
};

/// A matrix in a foreign format.
class EntryReader {
 public:
  virtual ~EntryReader() = default;

  [[nodiscard]] virtual MatrixShape shape() const = 0;
  /// Hands all elements to the sink; may be called again. Errors: FormatError, IoError, OutOfMemory, Interrupted.
  virtual void read(EntrySink& sink) = 0;
  /// "line 17" for the place of an element; "" if row and column say it all.
  [[nodiscard]] virtual std::string place_text(std::uint64_t place) = 0;
  /// What the format calls the first row and column: 0 or 1.
  [[nodiscard]] virtual std::uint32_t first_index() const { return 0; }
};

/// Sorts by row and column. Memory: none beyond the list. Threads: num_threads.
void sort_entries(std::vector<MatrixEntry>& entries, unsigned num_threads);

}  // namespace spmm::tools
