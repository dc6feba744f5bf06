// Checks and gathers the operands of many products, and gives each its own numbers in the result.
#include "cuda/arrays/gathered.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cuda/arrays/arrays.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

using Findings = std::array<kernels::ArrayFindings, 2>;  // of A and B

std::string name_of(DeviceBsrView DevicePair::*operand, std::uint64_t product) {
  return text(operand == &DevicePair::a ? "matrix A" : "matrix B", ", product ", product);
}

/// Asks the driver about each allocation once. Errors: DeviceError.
void check_all_memory(std::span<const DevicePair> products, const DeviceContext& context) {
  std::map<std::uintptr_t, Allocation> known;
  std::array<Allocation, 6> last{};  // of each kind of array
  const auto is_known = [&](const void* data, Allocation& likely) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    if (likely.holds(address)) return true;
    const auto behind = known.upper_bound(address);
    if (behind == known.begin() || !std::prev(behind)->second.holds(address)) return false;
    likely = std::prev(behind)->second;
    return true;
  };
  const auto check_array = [&](std::size_t kind, const void* data, std::uint64_t product, const char* part) {
    if (is_known(data, last[kind])) return;
    check_memory(data, text(name_of(kind < 3 ? &DevicePair::a : &DevicePair::b, product), ", ", part), context);
    last[kind] = allocation_of(data);
    known.insert_or_assign(last[kind].begin, last[kind]);
  };
  for (std::uint64_t x = 0; x < products.size(); ++x) {
    std::size_t kind = 0;
    for (const DeviceBsrView* const view : {&products[x].a, &products[x].b}) {
      check_array(kind, view->indptr, x, "indptr");
      if (view->num_blocks != 0) {
        check_array(kind + 1, view->indices, x, "indices");
        check_array(kind + 2, view->values, x, "values");
      }
      kind += 3;
    }
  }
}

/// A slot of the ring; the stream's work with it is done when it goes.
class RingSlot {
 public:
  RingSlot(PinnedRing& ring, const Stream& stream) : ring_(ring), stream_(stream), data_(ring.take()) {}
  ~RingSlot() {
    stream_.settle();
    ring_.put(data_);
  }
  RingSlot(const RingSlot&) = delete;
  RingSlot& operator=(const RingSlot&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  PinnedRing& ring_;
  const Stream& stream_;
  std::byte* data_;
};

template <class Index>
std::vector<std::uint64_t> fetch_as(const void* indices, std::uint64_t count) {
  std::vector<Index> fetched(count);
  check(cudaMemcpyAsync(fetched.data(), indices, count * sizeof(Index), cudaMemcpyDeviceToHost, cudaStreamPerThread),
        "copy");
  check(cudaStreamSynchronize(cudaStreamPerThread), "copy");
  return {fetched.begin(), fetched.end()};
}

}  // namespace

std::vector<std::uint64_t> fetch_indices(const void* indices, std::uint64_t count, std::uint32_t index_bytes,
                                         int device) {
  const DeviceGuard guard(device);
  return index_bytes == 8 ? fetch_as<std::int64_t>(indices, count) : fetch_as<std::int32_t>(indices, count);
}

GatheredProducts::GatheredProducts(const DeviceArrays& arrays, const UploadTarget& target, PinnedRing& ring)
    : arrays_(arrays), memory_(target.memory), events_(target.events) {
  check_all_memory(arrays.products, memory_.context());
  const Stream& stream = memory_.stream();
  upload_items(&DevicePair::a, a_, ring);
  upload_items(&DevicePair::b, b_, ring);
  const Event called;
  check(cudaEventRecord(called.get(), arrays.call.stream), "event");
  stream.wait_for(called);
  const DeviceBuffer<Findings> findings(memory_, 1, "findings");
  const Findings nothing{};
  events_.timed(Stage::build, stream, [&] {
    copy_async(findings.data(), &nothing, 1, stream);  // few pageable bytes: copied before the call returns
    auto* const found = reinterpret_cast<kernels::ArrayFindings*>(findings.data());
    gather(arrays.a, found, a_);
    gather(arrays.b, found + 1, b_);
  });
  const Findings found = fetch(findings.data(), stream);
  check_found(&DevicePair::a, found[0]);
  check_found(&DevicePair::b, found[1]);
}

/// Writes the items to pinned memory a slot at a time. Waits for the stream.
void GatheredProducts::upload_items(DeviceBsrView DevicePair::*operand, Side& side, PinnedRing& ring) {
  constexpr std::uint64_t kItemsPerSlot = kernels::kRingSlotBytes / sizeof(kernels::GatherItem);
  const Stream& stream = memory_.stream();
  const std::uint64_t num_items = arrays_.products.size() + 1;
  side.items = {memory_, num_items, "places of products"};
  const RingSlot slot(ring, stream);
  auto* const items = reinterpret_cast<kernels::GatherItem*>(slot.data());
  kernels::GatherItem next;
  for (std::uint64_t first = 0; first < num_items; first += kItemsPerSlot) {
    const std::uint64_t end = std::min(first + kItemsPerSlot, num_items);
    for (std::uint64_t x = first; x < end; ++x) {
      if (x + 1 == num_items) {
        items[x - first] = {
            .first_row = next.first_row, .first_column = next.first_column, .first_block = next.first_block};
        continue;
      }
      const DeviceBsrView& view = arrays_.products[x].*operand;
      next.indptr = view.indptr;
      next.indices = view.indices;
      next.values = view.values;
      items[x - first] = next;
      next.first_row += static_cast<std::uint32_t>(view.rows) / view.m;
      next.first_column += static_cast<std::uint32_t>(view.cols) / view.m;
      next.first_block += static_cast<std::uint32_t>(view.num_blocks);
    }
    copy_async(side.items.data() + first, items, end - first, stream);
    stream.synchronize();
  }
}

kernels::GatherTable GatheredProducts::table_of(const Side& side) const {
  return {.items = side.items.data(),
          .num_items = arrays_.products.size(),
          .num_rows = side.view.rows / side.view.m,
          .num_blocks = side.view.num_blocks,
          .m = side.view.m,
          .index_bytes = side.view.index_bytes};
}

void GatheredProducts::gather(const DeviceBsrView& sizes, kernels::ArrayFindings* findings, Side& side) {
  side.indptr = {memory_, (sizes.rows / sizes.m + 1) * sizes.index_bytes, "indptr of all products"};
  side.indices = {memory_, sizes.num_blocks * sizes.index_bytes, "indices of all products"};
  side.values = {memory_, sizes.num_blocks * sizes.m * sizes.m, "elements of all products"};
  side.view = sizes;
  side.view.indptr = side.indptr.data();
  side.view.indices = side.indices.data();
  side.view.values = side.values.data();
  kernels::launch_gather(table_of(side),
                         {.indptr = side.indptr.data(), .indices = side.indices.data(), .values = side.values.data()},
                         findings, memory_.stream().get());
}

/// Errors: FormatError that names the product.
void GatheredProducts::check_found(DeviceBsrView DevicePair::*operand, kernels::ArrayFindings found) const {
  constexpr unsigned long long kNothing = kernels::ArrayFindings::kNothingBad;
  const bool is_row = found.bad_row != kNothing;
  if (!is_row && found.bad_index == kNothing) return;
  unsigned long long& place = is_row ? found.bad_row : found.bad_index;
  for (std::uint64_t x = 0; x < arrays_.products.size(); ++x) {
    const DeviceBsrView& view = arrays_.products[x].*operand;
    const std::uint64_t count = is_row ? view.rows / view.m : view.num_blocks;
    if (place < count) return check_findings(view, name_of(operand, x), found);
    place -= count;
  }
}

DeviceArrays GatheredProducts::operands() const {
  return {.a = a_.view, .b = b_.view, .call = arrays_.call, .out = arrays_.out};
}

void GatheredProducts::drop_read() {
  a_.indptr = {};
  a_.indices = {};
  b_.indptr = {};
  b_.indices = {};
  if (b_.view.m > 1) b_.values = {};  // there is a transposed copy
}

void GatheredProducts::finish() {
  DeviceBsrBatch& batch = *arrays_.batch;
  const std::uint64_t num_products = arrays_.products.size();
  const std::uint64_t index_bytes = a_.view.index_bytes;
  const std::uint64_t num_rows = a_.view.rows / a_.view.m;
  const auto indptrs = allocate_result(arrays_.call, memory_, (num_rows + num_products) * index_bytes, "indptr");
  const auto first_block = allocate_result(arrays_.call, memory_, (num_products + 1) * index_bytes, "first blocks");
  const Stream& stream = memory_.stream();
  events_.timed(Stage::compact, stream, [&] {
    kernels::launch_number_locally(table_of(a_), table_of(b_),
                                   {.indptr = batch.all.indptr.get(),
                                    .indices = const_cast<void*>(batch.all.indices.get()),  // not shared yet
                                    .indptrs = indptrs.get(),
                                    .first_block = first_block.get()},
                                   stream.get());
  });
  const Event complete;
  complete.record(stream);
  check(cudaStreamWaitEvent(arrays_.call.stream, complete.get()), "event");
  batch.indptrs = indptrs;
  batch.first_block = first_block;
}

}  // namespace spmm::cuda
