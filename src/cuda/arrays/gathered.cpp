// Where operands lie; those of many products are gathered, and each gets its own numbers in the result.
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "cuda/arrays/arrays.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

std::string name_of(const char* matrix, std::uint64_t product) {
  return text(matrix, ", product ", product);
}

/// The begin of the first array of each kind, and the end of the last one. Errors: DeviceError.
void check_stack_memory(const ManyMatrices& many, const char* matrix, const DeviceContext& context) {
  const std::uint64_t last = many.size() - 1;
  const DeviceBsrView begin = many[0];
  const DeviceBsrView end = many[last];
  const auto check_array = [&](const void* from, const void* to, std::uint64_t bytes, const char* part) {
    if (bytes == 0) return;
    check_memory(from, text(name_of(matrix, 0), ", ", part), context);
    check_memory(static_cast<const std::byte*>(to) + bytes - 1, text(name_of(matrix, last), ", end of ", part),
                 context);
  };
  check_array(begin.indptr, end.indptr, (end.rows / end.m + 1) * end.index_bytes, "indptr");
  check_array(begin.indices, end.indices, end.num_blocks * end.index_bytes, "indices");
  check_array(begin.values, end.values, end.num_blocks * end.m * end.m * element_bytes(end.type), "values");
}

/// Asks the driver about each allocation once. Errors: DeviceError.
void check_listed_memory(const ManyMatrices& many_a, const ManyMatrices& many_b, const DeviceContext& context) {
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
    check_memory(data, text(name_of(kind < 3 ? "matrix A" : "matrix B", product), ", ", part), context);
    last[kind] = allocation_of(data);
    known.insert_or_assign(last[kind].begin, last[kind]);
  };
  for (std::uint64_t x = 0; x < many_a.size(); ++x) {
    std::size_t kind = 0;
    for (const DeviceBsrView& view : {many_a[x], many_b[x]}) {
      check_array(kind, view.indptr, x, "indptr");
      if (view.num_blocks != 0) {
        check_array(kind + 1, view.indices, x, "indices");
        check_array(kind + 2, view.values, x, "values");
      }
      kind += 3;
    }
  }
}

/// Of a product that is not one of many. Errors: DeviceError.
void check_single_memory(const DeviceArrays& arrays, const DeviceContext& context) {
  const auto check_array = [&](const std::string& name, const void* data, std::uint64_t count) {
    if (count != 0) check_memory(data, name, context);
  };
  for (const auto& [view, name] : {std::pair{&arrays.a, std::string("matrix A")}, {&arrays.b, "matrix B"}}) {
    check_array(name + ", indptr", view->indptr, 1);
    check_array(name + ", indices", view->indices, view->num_blocks);
    if (view->values != nullptr || !arrays.is_pattern) check_array(name + ", values", view->values, view->num_blocks);
  }
  const std::optional<DeviceBsrView>& c = arrays.call.c;
  if (!c) return;
  check_array("matrix C, indptr", c->indptr, 1);
  check_array("matrix C, indices", c->indices, c->num_blocks);
  if (arrays.call.beta != nullptr) check_array("matrix C, values", c->values, c->num_blocks);
}

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

ArrayOperands::ArrayOperands(const DeviceArrays& arrays, DeviceMemory& memory) : arrays_(arrays), memory_(memory) {
  const DeviceContext& context = memory_.context();
  if (!are_many()) {
    check_single_memory(arrays_, context);
    return;
  }
  if (arrays_.many_a.stack() == nullptr) check_listed_memory(arrays_.many_a, arrays_.many_b, context);
  for (Side& side : sides_) {
    if (side.many.stack() != nullptr) check_stack_memory(side.many, side.name, context);
    set_table(side);
  }
}

/// Before the view has its arrays.
void ArrayOperands::set_table(Side& side) {
  const DeviceBsrView& sizes = side.view;
  side.table = {.num_items = side.many.size(),
                .num_rows = sizes.rows / sizes.m,
                .num_blocks = sizes.num_blocks,
                .m = sizes.m,
                .index_bytes = sizes.index_bytes,
                .element_bytes = static_cast<std::uint32_t>(element_bytes(sizes.type))};
  if (side.many.stack() == nullptr) return upload_items(side);
  const auto& [first, strides] = *side.many.stack();
  side.table.first = {
      .indptr = first.indptr, .indices = first.indices, .values = static_cast<const std::byte*>(first.values)};
  side.table.step = {.indptr_bytes = strides.indptr * first.index_bytes,
                     .indices_bytes = strides.indices * first.index_bytes,
                     .values_bytes = strides.values * element_bytes(first.type),
                     .rows = static_cast<std::uint32_t>(first.rows / first.m),
                     .columns = static_cast<std::uint32_t>(first.cols / first.m),
                     .blocks = static_cast<std::uint32_t>(first.num_blocks)};
}

/// Writes the items to pinned memory a slot at a time. Waits for the stream between two.
void ArrayOperands::upload_items(Side& side) {
  constexpr std::uint64_t kItemsPerSlot = kernels::kRingSlotBytes / sizeof(kernels::GatherItem);
  const Stream& stream = memory_.stream();
  const std::uint64_t num_items = side.many.size() + 1;
  side.items = {memory_, num_items, "places of products"};
  side.table.items = side.items.data();
  side.slot.emplace(memory_.context().slots());
  auto* const items = reinterpret_cast<kernels::GatherItem*>(side.slot->data());
  kernels::GatherItem next;
  for (std::uint64_t first = 0; first < num_items; first += kItemsPerSlot) {
    if (first != 0) stream.synchronize();  // the slot has been read
    const std::uint64_t end = std::min(first + kItemsPerSlot, num_items);
    for (std::uint64_t x = first; x < end; ++x) {
      if (x + 1 == num_items) {
        items[x - first] = {
            .first_row = next.first_row, .first_column = next.first_column, .first_block = next.first_block};
        continue;
      }
      const DeviceBsrView view = side.many[x];
      next.indptr = view.indptr;
      next.indices = view.indices;
      next.values = static_cast<const std::byte*>(view.values);
      items[x - first] = next;
      next.first_row += static_cast<std::uint32_t>(view.rows) / view.m;
      next.first_column += static_cast<std::uint32_t>(view.cols) / view.m;
      next.first_block += static_cast<std::uint32_t>(view.num_blocks);
    }
    copy_async(side.items.data() + first, items, end - first, stream);
  }
}

/// Puts the gathering on the stream.
void ArrayOperands::gather(Side& side, kernels::ArrayFindings* findings) {
  DeviceBsrView& view = side.view;
  side.indptr = {memory_, (view.rows / view.m + 1) * view.index_bytes, "indptr of all products"};
  side.indices = {memory_, view.num_blocks * view.index_bytes, "indices of all products"};
  side.values = {memory_, view.num_blocks * view.m * view.m * element_bytes(view.type), "elements of all products"};
  view.indptr = side.indptr.data();
  view.indices = side.indices.data();
  view.values = side.values.data();
  kernels::launch_gather(side.table,
                         {.indptr = side.indptr.data(), .indices = side.indices.data(), .values = side.values.data()},
                         findings, memory_.stream().get());
}

void ArrayOperands::finish(StageEvents& events) {
  if (!are_many()) return;
  DeviceBsrBatch& batch = *arrays_.batch;
  const std::uint64_t num_products = batch.num_products;
  const std::uint64_t index_bytes = arrays_.a.index_bytes;
  const std::uint64_t num_rows = arrays_.a.rows / arrays_.a.m;
  const auto indptrs = allocate_result(arrays_.call, memory_, (num_rows + num_products) * index_bytes, "indptr");
  const auto first_block = allocate_result(arrays_.call, memory_, (num_products + 1) * index_bytes, "first blocks");
  const Stream& stream = memory_.stream();
  events.timed(Stage::compact, stream, [&] {
    kernels::launch_number_locally(sides_[0].table, sides_[1].table,
                                   {.indptr = batch.all.indptr.get(),
                                    .indices = const_cast<void*>(batch.all.indices.get()),  // not shared yet
                                    .indptrs = indptrs.get(),
                                    .first_block = first_block.get()},
                                   stream.get());
  });
  stream.hold(arrays_.call.stream);
  batch.indptrs = indptrs;
  batch.first_block = first_block;
}

}  // namespace spmm::cuda
