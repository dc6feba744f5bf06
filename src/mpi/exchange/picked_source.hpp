// Some records of a file that this rank can read itself, as a separate matrix.
#pragma once

#include <cstdint>
#include <string>

#include "base/memory/aligned_array.hpp"
#include "mpi/exchange/record_store.hpp"
#include "spmm/stream.hpp"

namespace spmm::mpi {

/// The records whose numbers a store has, in the order of the file. Memory: 4 bytes for each, of `limit`; while it is
/// made a bit for each record of the file, while it reads 1 MB for each thread. `whole` must outlive it.
class PickedSource : public Source {
 public:
  /// Errors: OutOfMemory.
  PickedSource(const Source& whole, const RecordStore& picked, StoreLimit& limit);
  ~PickedSource() override { limit_.give_back(numbers_.size() * sizeof(std::uint32_t)); }
  PickedSource(const PickedSource&) = delete;
  PickedSource& operator=(const PickedSource&) = delete;

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return whole_.name(); }
  [[nodiscard]] std::uint64_t original_record(std::uint64_t record) const override { return numbers_[record]; }
  [[nodiscard]] BlockIndex original_index(BlockIndex index) const override { return whole_.original_index(index); }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;
  void check_unchanged() const override { whole_.check_unchanged(); }

 private:
  /// Past the last record, from `first` on, that one read of the file brings along.
  [[nodiscard]] std::uint64_t end_of_run(std::uint64_t first, std::uint64_t last) const;

  const Source& whole_;
  StoreLimit& limit_;
  MatrixHeader header_;
  AlignedArray<std::uint32_t> numbers_;  // ascending
};

}  // namespace spmm::mpi
