// What outlives a product: device context and memory, pinned buffers, threads. For programs that multiply more than
// once.
#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "spmm/element_types.hpp"
#include "spmm/options.hpp"
#include "spmm/plan.hpp"
#include "spmm/report.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"

namespace spmm {

template <class T>
struct BsrView;  // arrays.hpp
template <class T>
struct BsrMatrix;
template <class T>
struct Accumulation;
struct DeviceBsrView;  // device.hpp
class DevicePlan;
struct DeviceCall;
struct DeviceBsrMatrix;
struct DevicePair;
struct DeviceStacks;
struct DeviceBsrBatch;

/// Everything is started when a product first needs it and kept for the next one; a product on the CPU makes no CUDA
/// call.
///
/// Threads: all members from any thread at once; each product has its own streams. The products share the engine's
/// memory limits: one that does not fit in addition to those that run waits for them, in the order of the calls.
/// Memory: without a limit in the options, the limits are most of what is free when the first of several concurrent
/// products starts. Device memory that a product gives back stays with the engine, as do pinned buffers (4 MB each, 8
/// per concurrent product and device at most) and threads. The device's limit is of each device.
/// Device: the caller's current CUDA device stays current; the legacy default stream is neither used nor waited for.
/// Processes: an engine belongs to the process that made it. In a child of fork() its members throw a UsageError, and
/// its destructor gives nothing back; make another engine there. A child has no CUDA if the parent has started it.
class Engine {
 public:
  /// Errors: UsageError (a device is listed twice, or `device` and `devices` are both given).
  explicit Engine(const EngineOptions& options = {});
  /// No product may be running.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Multiplies two files into a third. The output path holds the old content or the complete new one, nothing between.
  /// Errors: every class of error.hpp.
  Report multiply(const std::filesystem::path& a, const std::filesystem::path& b, const std::filesystem::path& out,
                  const ProductOptions& options = {});

  /// Multiplies two matrices in memory. The result is sorted by (i, j) and holds no all-zero block.
  /// Errors: every class of error.hpp but InputError and OutputError. Values: report: may be null.
  ProductMatrix multiply(const BlockMatrix& a, const BlockMatrix& b, const ProductOptions& options = {},
                         Report* report = nullptr);

  /// Multiplies records of two sources into a sink, up to and including sink.publish().
  /// Errors: as above, and what sources and sink throw.
  Report multiply(const Source& a, const Source& b, Sink& sink, const ProductOptions& options = {});

  /// C = A * B of arrays in host memory. Of uint16_t: as of matrices, or at given blocks of C. Of other types:
  /// chain.hpp says which bits C has, all blocks with pairs stay, and the CPU multiplies unless a device is asked for,
  /// which gets copies of the operands. With `onto` C is added to, or has given blocks. Shapes: A [r, k], B [k, c], C
  /// [r, c]. Errors: ShapeError, also one that names a block that C lacks; FormatError that names the array and the
  /// place; OutOfMemory, if the result does not fit the limit; UsageError (of other types: a kernel, transposes, checks
  /// of the result).
  template <class T>
  BsrMatrix<ProductOf<T>> multiply(const BsrView<T>& a, const BsrView<T>& b, const ProductOptions& options = {},
                                   Report* report = nullptr, const Accumulation<ProductOf<T>>& onto = {});

  /// C = A * B on the device that holds both, with the kernels, decisions and limits
  /// of every product. The engine's first device must be that one. The result is complete when the call returns.
  /// Shapes: A [r, k], B [k, c], C [r, c]; the same m, from 1 to 64, and the same index_bytes. Stream: operands are
  /// read in the order of call.stream. Memory: nothing runs out of core; OutOfMemory if the product does not fit the
  /// engine's limit at once. Errors: ShapeError; FormatError that names the array and the place, found on the device
  /// before anything else is done; OutOfMemory, also if the allocator has no memory; DeviceError (no CUDA in this
  /// build, no device, memory that is not that of the engine's device); UsageError (options that belong to the host:
  /// another backend, transposes, checks of the result; a stream that is being captured). Options of files do nothing.
  /// Threads: any; several products may run at once.
  DeviceBsrMatrix multiply(const DeviceBsrView& a, const DeviceBsrView& b, const DeviceCall& call,
                           const ProductOptions& options = {}, Report* report = nullptr);

  /// A plan for products of these patterns with values that come later. Those of the views may be null; if they are
  /// there, the planner reads their largest one: later products are fastest if theirs are about as large. Options:
  /// kernel = auto, rows, row-spread or pair-list. Memory: the plan holds its share of the engine's memory, as a
  /// running product does. Stream, threads, errors: as multiply() on the device.
  [[nodiscard]] DevicePlan plan(const DeviceBsrView& a, const DeviceBsrView& b, const DeviceCall& call,
                                const ProductOptions& options = {});

  /// Many products at once, as one whose operands have them on the diagonal: one sequence of launches, no
  /// synchronisation for each. Block columns of a result count within its product.
  /// Shapes: each A [r, k], B [k, c], of any sizes; all with the same m and index_bytes. No products: no arrays.
  /// Memory: the result, and a copy of all operands on the device. It asks the driver about each allocation that
  /// operands lie in: arrays that are cut from a few cost the host least.
  /// Stream, threads, errors: as multiply(); messages name the product ("matrix A, product 17, indices[5]"). UsageError
  /// if the products differ in m or index_bytes, or if the rows, inner sides or columns of all are more than 2^32 - 1
  /// elements, or their block rows, block columns or blocks more than indices number: split them.
  /// Values: the saturated elements of the report, and of the result, are those of all products.
  DeviceBsrBatch multiply_many(std::span<const DevicePair> products, const DeviceCall& call,
                               const ProductOptions& options = {}, Report* report = nullptr);

  /// The same of products whose matrices lie at constant distances, which cost the host the same however many they are.
  /// Of each array the driver is asked about the begin of the first matrix and the end of the last one; those between
  /// must be memory of the device, too. Errors: as multiply_many(); FormatError if strides leave the address space.
  DeviceBsrBatch multiply_stacks(const DeviceStacks& products, const DeviceCall& call,
                                 const ProductOptions& options = {}, Report* report = nullptr);

  /// Gives the device memory back that is kept for later products and not in use. Waits for nothing: what work
  /// that has not ended still uses stays.
  void trim();

  /// What multiply() would do with these files, from their headers and the limits alone. Runs nothing; with
  /// ProductOptions::rows, A is read once to count its blocks in these rows.
  /// Errors: as multiply(), of what is checked before anything is read.
  [[nodiscard]] Plan plan(const std::filesystem::path& a, const std::filesystem::path& b,
                          const ProductOptions& options = {});

 private:
  class Impl;
  [[nodiscard]] Impl& own() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spmm
