// Products of matrices that lie in device memory already; no header of CUDA is needed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "spmm/element_types.hpp"
#include "spmm/engine.hpp"
#include "spmm/options.hpp"
#include "spmm/report.hpp"

/// What cudaStream_t points to.
struct CUstream_st;

namespace spmm {

/// A matrix in block-CSR arrays of the caller in the memory of one CUDA device; m = 1 is CSR. It need not be square.
/// Shapes: rows x cols elements, both multiples of m; indptr [rows / m + 1]; indices [num_blocks] block columns; values
/// [num_blocks, m, m] row-major, aligned as their type is. indptr and indices hold signed integers of index_bytes, 4 or
/// 8.
/// Values: as BsrView.
struct DeviceBsrView {
  std::uint64_t rows = 0;               ///< elements
  std::uint64_t cols = 0;               ///< elements
  std::uint32_t m = 1;                  ///< block side
  std::uint64_t num_blocks = 0;         ///< stored
  const void* indptr = nullptr;         ///< [rows / m + 1], device
  const void* indices = nullptr;        ///< [num_blocks], device
  std::uint32_t index_bytes = 4;        ///< of a number in indptr and indices
  const void* values = nullptr;         ///< [num_blocks, m, m] of type, device
  ElementType type = ElementType::u16;  ///< of the elements
};

/// Where a result's arrays come from. allocate: device memory of that many bytes, aligned to `alignment`, which work on
/// `stream` may use; null if there is none. release: gives it back, in the order of `stream`; empty: it stays the
/// caller's. With serves_workspace all other device memory comes from it, too, on a stream of the library's: for a pool
/// that holds the free memory. The engine's limit is then that of the whole device. Errors: UsageError if
/// serves_workspace lacks allocate or release.
/// Threads: called by the thread that multiplies; release by the one that drops the last owner.
struct DeviceAllocator {
  /// Null if there is none.
  std::function<void*(std::uint64_t bytes, std::uint64_t alignment, CUstream_st* stream)> allocate{};
  /// Empty: arrays stay the caller's.
  std::function<void(void* data, CUstream_st* stream)> release{};
  bool serves_workspace = false;  ///< what a product or a plan needs meanwhile
};

/// How a product of device arrays is called.
struct DeviceCall {
  CUstream_st* stream = nullptr;  ///< any stream of the device, the default ones too; the product comes behind its work
  DeviceAllocator allocator{};    ///< empty: memory comes from the engine's pool
  /// As Accumulation (arrays.hpp) of the result's type. A plan keeps the blocks of C, and has alpha and beta in
  /// DevicePlan::multiply().
  std::optional<DeviceBsrView> c{};
  bool is_mask = false;         ///< pairs of blocks that C lacks are left out; false: an error
  const void* alpha = nullptr;  ///< [1], host; null: 1
  const void* beta = nullptr;   ///< [1], host; null: 0, and c's values are not needed
};

/// A result in block-CSR arrays in device memory. Copies share the arrays. The last owner gives them back in the order
/// of the product's stream, which must still be there; the engine need not be.
/// Shapes, values: as DeviceBsrView; each row's block columns ascend. u32: no block of zeros; other types: all blocks
/// that have a pair.
/// Stream: work on the product's stream may use the arrays at once; other streams wait for that one.
struct DeviceBsrMatrix {
  std::uint64_t rows = 0;                 ///< elements
  std::uint64_t cols = 0;                 ///< elements
  std::uint32_t m = 1;                    ///< block side
  std::uint64_t num_blocks = 0;           ///< stored
  std::uint32_t index_bytes = 4;          ///< of A's
  std::shared_ptr<const void> indptr{};   ///< [rows / m + 1], device
  std::shared_ptr<const void> indices{};  ///< [num_blocks], device
  std::shared_ptr<const void> values{};   ///< [num_blocks, m, m] of type, device
  ElementType type = ElementType::u32;    ///< result_of() that of the operands
  int device = 0;                         ///< number of the CUDA device
  std::uint64_t num_saturated = 0;        ///< elements that are 2^32 - 1: their true sums are that or larger
};

/// A product whose pattern stays while its values change: the pattern of C, the pairs and the decision are kept on the
/// device, and each multiplication does the numeric work alone. Made by Engine::plan(). All blocks of C with pairs stay
/// in its pattern, also if they are zero.
/// Threads: one at a time. The engine must outlive it, and the stream of the DeviceCall, too.
class DevicePlan {
 public:
  struct State;                                        ///< of the library
  explicit DevicePlan(std::unique_ptr<State> state);   ///< Engine::plan() calls it.
  DevicePlan(DevicePlan&& other) noexcept;             ///< `other` may only go then.
  DevicePlan& operator=(DevicePlan&& other) noexcept;  ///< The same.
  ~DevicePlan();                                       ///< Gives the memory back.

  /// C without its values: sizes, indptr, and indices, which ascend in each row.
  [[nodiscard]] const DeviceBsrMatrix& pattern() const;

  /// C = A * B for values in the order of the blocks that the plan was made of.
  /// Shapes: a [num_blocks of A, m, m], b [num_blocks of B, m, m], c [pattern().num_blocks, m, m], row-major, 16-byte
  /// aligned, memory of the plan's device. Values: any, of the types of the operands and of pattern(); nothing is
  /// checked. Errors: UsageError (alignment).
  /// Stream: in the order of `stream`, which may be captured in a graph; nothing waits, and nothing is allocated. Calls
  /// on several streams come one after the other; a replay of a graph must not overlap other work of the plan.
  /// With alpha or beta: C = alpha * A * B + beta * C, as Accumulation has it; not of u16. Shapes: [1], host, of the
  /// type of c, read by the call; null: 1 and 0.
  void multiply(const void* a, const void* b, void* c, CUstream_st* stream, const void* alpha = nullptr,
                const void* beta = nullptr);

  /// Elements of such a c that are 2^32 - 1: their true sums are that or larger. 0 for other types than u32. Waits for
  /// the stream.
  [[nodiscard]] std::uint64_t count_saturated(const std::uint32_t* c, CUstream_st* stream);

 private:
  std::unique_ptr<State> state_;
};

/// One of many products. Shapes: a [r, k], b [k, c].
struct DevicePair {
  DeviceBsrView a{};  ///< [r, k]
  DeviceBsrView b{};  ///< [k, c]
};

/// From an array of one matrix to that of the next; 0: all have the same. Arrays may overlap: they are only read.
struct DeviceStrides {
  std::uint64_t indptr = 0;   ///< numbers
  std::uint64_t indices = 0;  ///< numbers
  std::uint64_t values = 0;   ///< elements
};

/// Matrices of one shape and number of blocks at constant distances, such as a batched tensor.
struct DeviceBsrStack {
  DeviceBsrView first{};    ///< one matrix
  DeviceStrides strides{};  ///< from each to the next
};

/// Products of two stacks, one by one. Shapes: a of [r, k], b of [k, c].
struct DeviceStacks {
  DeviceBsrStack a{};              ///< left factors
  DeviceBsrStack b{};              ///< right factors
  std::uint64_t num_products = 0;  ///< matrices of each stack
};

/// The results of many products in arrays that they share; integers of A's index_bytes. Product x has the block rows
/// first_row[x] to first_row[x + 1] of `all`, and its blocks from first_block[x] on.
/// Memory, stream: as DeviceBsrMatrix.
struct DeviceBsrBatch {
  DeviceBsrMatrix all{};                   ///< products one below another; cols: those of the widest
  std::uint64_t num_products = 0;          ///< how many they are
  std::vector<std::uint64_t> first_row{};  ///< [products + 1], block rows before each product; host. Empty of stacks:
                                           ///< product x begins at x * r / m
  std::shared_ptr<const void> first_block{};  ///< [products + 1], blocks before each product; device
  std::shared_ptr<const void> indptrs{};      ///< [rows / m + products], each product's own indptr; device
};

/// Copies first_block to the host and waits for it. Shapes: [products + 1]. Errors: DeviceError, CUDA's own.
std::vector<std::uint64_t> fetch_first_blocks(const DeviceBsrBatch& batch);

}  // namespace spmm
