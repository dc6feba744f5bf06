// A product whose operands and result are arrays in device memory, as the engine sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "cuda/backend.hpp"
#include "spmm/device.hpp"
#include "spmm/error.hpp"
#include "spmm/options.hpp"
#include "spmm/stream.hpp"

namespace spmm {

/// Stands for an operand in device memory: its header, and how messages name its blocks.
class DeviceSource : public Source {
 public:
  /// Values: many = of many products, the matrices that the view has the sums of.
  DeviceSource(const DeviceBsrView& view, std::uint32_t n, std::string name, const cuda::ManyMatrices& many = {});

  [[nodiscard]] const MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  /// Only a product out of core reads records. Errors: OutOfMemory.
  [[noreturn]] void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override;
  [[nodiscard]] std::string place(std::uint64_t record) const override;
  [[nodiscard]] BlockIndex original_index(BlockIndex index) const override;
  void check_unchanged() const override {}

 private:
  MatrixHeader header_;
  std::string name_;
  cuda::ManyMatrices many_;
};

/// Rejects records: the result stays on the device.
class DeviceSink : public Sink {
 public:
  void write(std::uint64_t first_block, std::span<const std::byte> records, Release release) override;
  void finish(const MatrixHeader&) override {}
  void publish() override {}
};

/// Many products as one: what is known of them before a device is started.
struct ManyProducts {
  cuda::ManyMatrices a{};
  cuda::ManyMatrices b{};
  DevicePair sums{};       // sizes of the two matrices that they make
  DeviceBsrBatch batch{};  // of the result: sizes, and where the rows of each product begin
};

/// Values: at least one product. Errors: ShapeError, FormatError, UsageError (products that do not go together).
ManyProducts check_products(std::span<const DevicePair> products);
ManyProducts check_products(const DeviceStacks& products);

/// One product, or many as one. Errors: ShapeError, FormatError, UsageError (options that need the host).
class DeviceProduct {
 public:
  DeviceProduct(const DeviceBsrView& a, const DeviceBsrView& b, const DeviceCall& call, const ProductOptions& options);
  DeviceProduct(ManyProducts many, const DeviceCall& call, const ProductOptions& options);
  DeviceProduct(const DeviceProduct&) = delete;
  DeviceProduct& operator=(const DeviceProduct&) = delete;

  /// Only patterns are multiplied, by kernels that write all C blocks with pairs. Errors: UsageError (another kernel).
  void set_pattern();

  [[nodiscard]] const Source& a() const { return a_; }
  [[nodiscard]] const Source& b() const { return b_; }
  [[nodiscard]] Sink& sink() { return sink_; }
  [[nodiscard]] cuda::DeviceArrays& arrays() { return arrays_; }
  /// Those of the caller, on CUDA.
  [[nodiscard]] const ProductOptions& options() const { return options_; }
  [[nodiscard]] DeviceBsrMatrix& result() { return batch_.all; }
  /// Of many products.
  [[nodiscard]] DeviceBsrBatch& batch() { return batch_; }

 private:
  DevicePair sums_;  // of many products
  std::uint32_t n_;
  DeviceSource a_;
  DeviceSource b_;
  DeviceSink sink_;
  ProductOptions options_;
  DeviceBsrBatch batch_;
  cuda::DeviceArrays arrays_;
};

}  // namespace spmm
