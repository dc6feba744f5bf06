// Where records come from and where they go: a file or memory, the same pipeline for both.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "spmm/types.hpp"

namespace spmm {

/// Input records of one matrix, in file order, packed as in the file.
class Source {
 public:
  virtual ~Source() = default;

  /// Checked header: n, m, num_blocks agree with each other and with the length of the data.
  [[nodiscard]] virtual const MatrixHeader& header() const = 0;

  /// How messages call this input (the path as given, or "matrix A").
  [[nodiscard]] virtual const std::string& name() const = 0;

  /// Copies records [first, first + count) to dst.
  /// Shapes: dst [count * input_record_bytes(m)]. Threads: may be called from several threads at once.
  /// Errors: FormatError if the data became shorter, IoError if reading fails.
  virtual void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const = 0;

  /// Asks for the data ahead of time if that helps; returns soon. Threads: at any time.
  virtual void prefetch() const {}

  /// What tells the data, as they are now, from others: sources with equal identities have equal records. Empty if they
  /// cannot be told, as in memory. Threads: as read().
  [[nodiscard]] virtual std::string identity() const { return {}; }

  /// Where a record is, as messages say it behind the name. Sources whose data are no file say it in the words of their
  /// caller: "block 5", "indices[5], in block row 2".
  [[nodiscard]] virtual std::string place(std::uint64_t record) const;
  /// Position of a block as messages give it; differs from `index` if the source transposes another one.
  [[nodiscard]] virtual BlockIndex original_index(BlockIndex index) const { return index; }

  /// Checks after the last read that the length is still what the header says. Errors: FormatError.
  virtual void check_unchanged() const = 0;
};

/// Gives a buffer back to its owner: calls a function once, when the last copy is destroyed or called.
/// Threads: any; copies are apart. The function must not throw.
class Release {
 public:
  /// Nothing to give back.
  Release() = default;
  /// Values: call = a copyable function without arguments.
  template <std::invocable Call>
  Release(Call call) : call_(nullptr, [call = std::move(call)](std::nullptr_t) mutable { call(); }) {}

  /// This copy needs the buffer no longer.
  void operator()() { call_.reset(); }

 private:
  std::shared_ptr<const void> call_;
};

/// Takes output records.
class Sink {
 public:
  virtual ~Sink() = default;

  /// Whether the records stay in host memory: the engine counts them against its memory limit as they come.
  [[nodiscard]] virtual bool keeps_records() const { return false; }

  /// The side of the blocks that will come, and how many at most if that is known, else 0. The engine calls it before
  /// any record, and again once pairs are counted.
  virtual void expect(std::uint32_t m, std::uint64_t most_blocks) {
    static_cast<void>(m), static_cast<void>(most_blocks);
  }

  /// Whether it takes records before those in front of them.
  [[nodiscard]] virtual bool takes_places() const { return false; }

  /// Takes whole packed output records, in front of which there are first_block blocks of the result. They come in
  /// their final order; in any order if takes_places(). All have come before finish(), and leave no gap.
  /// Memory: the bytes stay until `release` is called or goes.
  /// Threads: one caller at a time. Errors: an earlier failure to write is thrown here or by finish().
  virtual void write(std::uint64_t first_block, std::span<const std::byte> records, Release release) = 0;

  /// Copies records, between finish() and publish(). False if they cannot be read again.
  /// Shapes: dst [count * output_record_bytes(m)]. Errors: IoError.
  virtual bool read_back(std::uint64_t first_block, std::uint64_t count, std::byte* dst) {
    static_cast<void>(first_block), static_cast<void>(count), static_cast<void>(dst);
    return false;
  }

  /// Waits until everything is written, then completes the output with this header. The output becomes
  /// visible under its final name only in publish(). Errors: IoError.
  virtual void finish(const MatrixHeader& header) = 0;

  /// Makes the finished output visible at once (rename). Errors: IoError, OutputError.
  virtual void publish() = 0;
};

}  // namespace spmm
