// Operands that stay on the device between the products of an engine. Who keeps which is written down in the engine's
// memory budget (base/memory/budget.hpp); here is what is kept, and how streams wait for each other over it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/run/run.hpp"
#include "cuda/operands/sorted_rows.hpp"
#include "spmm/stream.hpp"

namespace spmm::cuda {

/// One operand, parsed and sorted. Never written again.
/// Stream: `ready` is behind the work that filled it; its memory is freed in the order of `stream`, which waits for the
/// last work of everybody who used it.
struct KeptOperand {
  /// Takes rows over that work on this stream has filled, or is filling. Errors: CudaError; the rows are untouched
  /// then.
  KeptOperand(SortedRows& filled, bool is_transposed, const Stream& by);

  Stream stream;
  DeviceMemory memory;
  Event ready;
  SortedRows rows;
  bool transposed;  // blocks as B has them
};

/// The use of a kept operand by a product. Its memory counts as the product's own meanwhile.
class KeptUse {
 public:
  KeptUse() = default;
  /// The claim has an item. memory.stream() waits for it; work on other streams must not use it.
  KeptUse(KeptClaim claim, DeviceMemory& memory);
  KeptUse(KeptUse&& other) noexcept { swap(other); }
  KeptUse& operator=(KeptUse&& other) noexcept {
    KeptUse old(std::move(*this));
    swap(other);
    return *this;
  }
  /// The operand counts as the product's until that ends, as if the product had parsed it itself.
  /// Stream: what is on the stream by now may still use it.
  ~KeptUse();
  /// Ends the use now: for a product that goes on with a copy of its own. Stream: as above.
  void end() noexcept;

  explicit operator bool() const { return claim_.item() != nullptr; }
  [[nodiscard]] const KeptOperand& operand() const { return *static_cast<const KeptOperand*>(claim_.item().get()); }

 private:
  void mark_end() noexcept;
  void swap(KeptUse& other) noexcept {
    std::swap(claim_, other.claim_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
  }

  KeptClaim claim_;
  DeviceMemory* memory_ = nullptr;
  std::uint64_t bytes_ = 0;  // that the product would hold itself
};

/// A side of a product: what is read of it, and what is kept.
class OperandSide {
 public:
  OperandSide(const Source& source, bool is_b, bool keep);
  OperandSide(const OperandSide&) = delete;
  OperandSide& operator=(const OperandSide&) = delete;

  /// Asks for both sides at once; may wait for another product. Errors: Interrupted, what the sources throw.
  static void claim(OperandSide& a, OperandSide& b, const Run& run);

  [[nodiscard]] const MatrixHeader& header() const { return source_.header(); }
  [[nodiscard]] bool is_kept() const { return claim_.item() != nullptr; }
  /// The source; one without records if the operand is kept.
  [[nodiscard]] const Source& to_read() const;

  /// After reading and sorting: gives kept rows to `rows`, or keeps what is there if that was asked for. With a use
  /// the buffers of `rows` are lent, and must not be written. Errors: OutOfMemory, what the source throws.
  KeptUse exchange(SortedRows& rows, DeviceMemory& memory);

 private:
  /// The same matrix without its blocks.
  class NoRecords : public Source {
   public:
    explicit NoRecords(const Source& source) : source_(source), header_(source.header()) { header_.num_blocks = 0; }
    [[nodiscard]] const MatrixHeader& header() const override { return header_; }
    [[nodiscard]] const std::string& name() const override { return source_.name(); }
    void read(std::uint64_t, std::uint64_t, std::byte*) const override {}
    void check_unchanged() const override {}

   private:
    const Source& source_;
    MatrixHeader header_;
  };

  [[nodiscard]] KeptWish wish() const;

  const Source& source_;
  NoRecords no_records_;
  bool is_b_;
  bool keep_;
  std::optional<SourceIdentity> identity_;
  KeptClaim claim_;
};

}  // namespace spmm::cuda
