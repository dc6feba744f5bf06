// Raw records -> panels of high bytes, for the verifier: blocks go straight to their place in a dense panel.
#include "kernels/check.hpp"
#include "kernels/grid.cuh"
#include "kernels/verify/launch.hpp"

namespace spmm::kernels {
namespace {

constexpr std::uint32_t kHeadElements = 4;  // a record's head, in units of 2 bytes

/// Where a run of m bytes along K begins in a panel, and marks the chunks of K that it touches.
__device__ std::uint8_t* place_of(const BytePanel& panel, std::uint64_t line, std::uint64_t k, std::uint32_t m) {
  std::uint8_t* const used = panel.used + line / panel.lines_per_tile * (panel.depth / kBoundChunk);
  used[k / kBoundChunk] = 1;  // every thread writes the same
  used[(k + m - 1) / kBoundChunk] = 1;
  return panel.bytes + line * panel.depth + k;
}

/// Writes m bytes, element(x) >> shift for x in [0, m). Words of four if they are aligned.
template <class Element>
__device__ void put_run(std::uint8_t* to, std::uint32_t m, std::uint32_t shift, const Element& element) {
  if (m % 4 == 0) {  // then k and the depth are multiples of 4, too
    for (std::uint32_t x = 0; x < m; x += 4) {
      std::uint32_t word = 0;
      for (std::uint32_t y = 0; y < 4; ++y) word |= std::uint32_t{element(x + y)} >> shift << 8 * y;
      *reinterpret_cast<std::uint32_t*>(to + x) = word;
    }
    return;
  }
  for (std::uint32_t x = 0; x < m; ++x) to[x] = static_cast<std::uint8_t>(element(x) >> shift);
}

__device__ inline const std::uint16_t* record_at(const RawRecords& records, std::uint64_t x) {
  const std::uint64_t elements = std::uint64_t{records.m} * records.m;
  return reinterpret_cast<const std::uint16_t*>(records.bytes) + x * (kHeadElements + elements);
}
__device__ inline std::uint32_t index_at(const std::uint16_t* head) {
  return head[0] | std::uint32_t{head[1]} << 16;
}

/// Grid: a thread per element row of a record, strided.
/// Work: reads m successive elements, writes m successive bytes; neighbours read on, and write lines that are `depth`
/// apart. Memory: record read once, panel written in runs of m bytes.
__global__ void scatter_rows(RawRecords records, const std::uint32_t* places, std::uint32_t shift, BytePanel panel) {
  const std::uint32_t m = records.m;
  for_each_item(records.count * m, [&](std::uint64_t item) {
    const std::uint16_t* const record = record_at(records, item / m);
    const auto r = static_cast<std::uint32_t>(item % m);
    const std::uint32_t i = index_at(record);
    const std::uint32_t j = index_at(record + 2);
    if (i >= records.blocks_per_side || j >= records.blocks_per_side) return;
    const std::uint32_t place = places[i];
    if (place == kNoPlace) return;
    const std::uint16_t* const from = record + kHeadElements + r * m;
    std::uint8_t* const to = place_of(panel, std::uint64_t{place} * m + r, std::uint64_t{j} * m, m);
    put_run(to, m, shift, [&](std::uint32_t x) { return from[x]; });
  });
}

/// Grid: a thread per element column of a record, strided.
/// Work: reads m elements 2 m bytes apart, neighbours side by side; writes m successive bytes. Memory: as above.
__global__ void scatter_columns(RawRecords records, std::uint64_t first_column, std::uint32_t shift, BytePanel panel) {
  const std::uint32_t m = records.m;
  for_each_item(records.count * m, [&](std::uint64_t item) {
    const std::uint16_t* const record = record_at(records, item / m);
    const auto c = static_cast<std::uint32_t>(item % m);
    const std::uint32_t i = index_at(record);
    const std::uint32_t j = index_at(record + 2);
    if (i >= records.blocks_per_side || j >= records.blocks_per_side) return;
    const std::uint64_t column = std::uint64_t{j} * m + c;
    if (column < first_column || column - first_column >= panel.num_lines) return;
    const std::uint16_t* const from = record + kHeadElements + c;
    std::uint8_t* const to = place_of(panel, column - first_column, std::uint64_t{i} * m, m);
    put_run(to, m, shift, [&](std::uint32_t x) { return from[x * m]; });
  });
}

}  // namespace

void launch_scatter_rows(const RawRecords& records, const std::uint32_t* places, std::uint32_t shift,
                         const BytePanel& panel, cudaStream_t stream) {
  if (records.count == 0) return;
  scatter_rows<<<item_grid(records.count * records.m), kItemThreads, 0, stream>>>(records, places, shift, panel);
  check_launch("scatter_rows");
}

void launch_scatter_columns(const RawRecords& records, std::uint64_t first_column, std::uint32_t shift,
                            const BytePanel& panel, cudaStream_t stream) {
  if (records.count == 0) return;
  scatter_columns<<<item_grid(records.count * records.m), kItemThreads, 0, stream>>>(records, first_column, shift,
                                                                                     panel);
  check_launch("scatter_columns");
}

}  // namespace spmm::kernels
