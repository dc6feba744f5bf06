// --verify full: the records of a product, their order and their sums proven on their way to its sink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/run/run.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"
#include "verify/proof.hpp"

namespace spmm {

/// Two records that do not ascend.
struct OrderFlaw {
  std::uint64_t record = 0;  ///< the second one
  BlockIndex before;
  BlockIndex at;

  [[nodiscard]] bool is_duplicate() const { return before == at; }
};

/// The order of one file, whose pieces may come in any order. Memory: 32 bytes for each piece. Threads: any may add().
class RecordOrder {
 public:
  explicit RecordOrder(std::uint64_t record_bytes) : record_bytes_(record_bytes) {}

  /// Takes whole records, each once; `first` = how many are in front of them. Returns the first flaw among them.
  std::optional<OrderFlaw> add(std::uint64_t first, std::span<const std::byte> records);

  /// Behind the last add(). Returns the first flaw between pieces.
  std::optional<OrderFlaw> close();

  /// Whether exactly the records [0, count) have come. Behind close().
  [[nodiscard]] bool is_whole(std::uint64_t count) const;

 private:
  struct Piece {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    BlockIndex first;
    BlockIndex last;
  };

  std::uint64_t record_bytes_;
  std::mutex mutex_;
  std::vector<Piece> pieces_;
};

/// Threads: one caller at a time.
class ResultProof {
 public:
  /// Values: `sink` is what the records go to, for messages; header = of A. All must outlive this.
  ResultProof(Proof& proof, Sink& sink, const MatrixHeader& header, const Run& run)
      : proof_(proof),
        sink_(sink),
        header_(header),
        run_(run),
        record_bytes_(output_record_bytes(header.m)),
        order_(record_bytes_) {}

  /// Takes whole records, each once and in any order, on the threads of the run. Errors: VerifyError if they break the
  /// format; OutOfMemory.
  void look(std::uint64_t first_block, std::span<const std::byte> records);

  /// Behind sink.finish(): decides every row. Values: num_blocks = of the whole result. Errors: VerifyError that says
  /// what differs; as Proof::finish().
  ProofResult check(std::uint64_t num_blocks);

 private:
  void look_at_piece(std::uint64_t first_block, std::span<const std::byte> records);
  bool find_row(std::uint32_t row, std::uint64_t num_blocks,
                const std::function<void(BlockIndex at, const std::byte* values)>& take);

  Proof& proof_;
  Sink& sink_;
  MatrixHeader header_;
  const Run& run_;
  std::uint64_t record_bytes_;
  RecordOrder order_;
};

}  // namespace spmm
