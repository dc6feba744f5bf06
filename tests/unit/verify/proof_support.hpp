// Results in memory that a proof looks at, whole or broken.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "spmm/types.hpp"
#include "support/matrices.hpp"
#include "support/memory_stream.hpp"
#include "verify/proof.hpp"

namespace spmm::test {

/// Packed records of a result, in its order.
inline std::vector<std::byte> packed(const ProductMatrix& c) {
  const std::string file = file_of(c);
  const auto records = std::as_bytes(std::span(file)).subspan(kHeaderBytes);
  return {records.begin(), records.end()};
}

inline FindRow find_in(const ProductMatrix& c) {
  return [&c](std::uint32_t row, const std::function<void(BlockIndex, const std::byte*)>& take) {
    for (std::size_t x = 0; x < c.index.size(); ++x) {
      if (c.index[x].i == row) take(c.index[x], reinterpret_cast<const std::byte*>(c.block(x)));
    }
    return true;
  };
}

struct Proven {
  ProofResult result{};
  std::optional<RecordFlaw> flaw{};

  [[nodiscard]] bool is_right() const { return !flaw && result.num_wrong == 0; }
};

struct ProvenHow {
  ProofSettings settings{.key = 1};
  bool can_find = true;  ///< blocks of C for messages
  unsigned num_threads = 2;
};

/// A proof of c = a b.
inline Proven prove(const BlockMatrix& a, const BlockMatrix& b, const ProductMatrix& c, const ProvenHow& how = {}) {
  const MemorySource source_a(a, "A");
  const MemorySource source_b(b, "B");
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{.clock = clock, .on_progress = no_progress, .cancel = nullptr, .num_threads = how.num_threads};
  Proof proof(source_a, source_b, how.settings, run);
  const std::vector<std::byte> bytes = packed(c);
  const std::uint64_t record = output_record_bytes(c.m);
  constexpr std::uint64_t kPieceRecords = 7;  // of one look()
  for (std::uint64_t first = 0; first < c.index.size(); first += kPieceRecords) {
    const std::uint64_t count = std::min<std::uint64_t>(kPieceRecords, c.index.size() - first);
    auto flaw = proof.look(std::span(bytes).subspan(first * record, count * record));
    if (flaw) {
      flaw->record += first;
      return {.flaw = flaw};
    }
  }
  return {.result = proof.finish(how.can_find ? find_in(c) : FindRow(), run)};
}

}  // namespace spmm::test
