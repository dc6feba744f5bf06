// --verify full: the records of a product, proven on their way to its sink.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/run/run.hpp"
#include "spmm/stream.hpp"
#include "verify/proof.hpp"
#include "verify/record_order.hpp"

namespace spmm {

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
  bool find_row(std::uint32_t row, const std::function<void(BlockIndex at, const std::byte* values)>& take);

  Proof& proof_;
  Sink& sink_;
  MatrixHeader header_;
  const Run& run_;
  std::uint64_t record_bytes_;
  RecordOrder order_;
};

}  // namespace spmm
