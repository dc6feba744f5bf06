#include "engine/inner_product.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/record_head.hpp"
#include "cuda/cuda_backend.hpp"
#include "engine/partial_sums.hpp"
#include "engine/slab_streams.hpp"
#include "plan/run_models.hpp"

namespace spmm {
namespace {

constexpr double kMinBytes = 1e9;                // of both operands: less is uploaded before a sample pays
constexpr std::uint64_t kRunBytes = 4u << 10;    // records of a run
constexpr std::uint64_t kMaxRuns = 4096;         // of an operand
constexpr unsigned kMaxThreads = 8;

/// What a worker has seen.
void add_run(const std::vector<BlockIndex>& run, bool is_b, plan::SampledIndices& sample) {
  std::vector<std::uint32_t> rows;
  std::vector<std::uint32_t> columns;
  for (const BlockIndex& at : run) {
    rows.push_back(at.i);
    columns.push_back(at.j);
    sample.inner.push_back(is_b ? at.i : at.j);
  }
  for (auto [from, to] : {std::pair{&rows, &sample.rows}, std::pair{&columns, &sample.columns}}) {
    std::sort(from->begin(), from->end());
    from->erase(std::unique(from->begin(), from->end()), from->end());
    to->insert(to->end(), from->begin(), from->end());
  }
}

plan::SampledIndices sample_indices_of(const Source& source, bool is_b, unsigned num_threads, Workers& workers) {
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  const std::uint64_t per_run = std::max<std::uint64_t>(1, kRunBytes / record);
  const std::uint64_t all_runs = (header.num_blocks + per_run - 1) / per_run;
  const std::uint64_t num_runs = std::min(all_runs, kMaxRuns);
  plan::SampledIndices sample;
  sample.is_whole = num_runs == all_runs;
  std::mutex mutex;
  std::uint64_t next = 0;
  workers.run(static_cast<unsigned>(std::min<std::uint64_t>(std::clamp(num_threads, 1U, kMaxThreads), num_runs / 64 + 1)),
              [&](unsigned) {
                std::vector<std::byte> records(per_run * record);
                std::vector<BlockIndex> indices;
                while (true) {
                  std::uint64_t run = 0;
                  {
                    const std::lock_guard lock(mutex);
                    if (next == num_runs) return;
                    run = next++;
                  }
                  // Somewhere in its part of the file: a fixed place could always meet the same part of a pattern.
                  const std::uint64_t stride = all_runs / num_runs;
                  const std::uint64_t first =
                      (run * all_runs / num_runs + run * 0x9E37'79B9'7F4A'7C15u % stride) * per_run;
                  const std::uint64_t count = std::min<std::uint64_t>(per_run, header.num_blocks - first);
                  source.read(first, count, records.data());
                  indices.clear();
                  for (std::uint64_t x = 0; x < count; ++x) {
                    const BlockIndex at = read_index(records.data() + x * record);
                    if (at.i < header.blocks_per_side() && at.j < header.blocks_per_side()) indices.push_back(at);
                  }
                  const std::lock_guard lock(mutex);
                  add_run(indices, is_b, sample);
                }
              });
  return sample;
}

}  // namespace

plan::DivisionWish division_wish() {
  const char* const wish = std::getenv("SPMM_TEST_DIVISION");
  const std::string_view wanted = wish != nullptr ? wish : "";
  return wanted == "rows"    ? plan::DivisionWish::rows
         : wanted == "inner" ? plan::DivisionWish::inner
                             : plan::DivisionWish::faster;
}

bool may_divide_inner(const MatrixHeader& a, const MatrixHeader& b, const plan::Limits& limits) {
  if (limits.more_devices.empty() || limits.num_parts != 0 || limits.division == plan::DivisionWish::rows) return false;
  return limits.division == plan::DivisionWish::inner || plan::input_bytes(a) + plan::input_bytes(b) >= kMinBytes;
}

plan::InnerSample sample_inner(const Source& a, const Source& b, unsigned num_threads, Workers& workers) {
  return plan::make_inner_sample(plan::expected_statistics(a.header(), b.header()),
                                 sample_indices_of(a, false, num_threads, workers),
                                 sample_indices_of(b, true, num_threads, workers));
}

std::optional<ProductStats> multiply_by_inner(const Source& a, const Source& b, Sink& sink,
                                              plan::Execution& execution, const plan::Decide& decide, const Run& run) {
  const std::uint32_t m = a.header().m;
  const std::size_t num_parts = execution.inner_borders.size() + 1;
  std::vector<std::uint64_t> left_bytes(num_parts, execution.partial_bytes);
  std::deque<slabs::KeepingSink> partials;
  std::vector<Sink*> sinks;
  for (std::uint64_t& left : left_bytes) sinks.push_back(&partials.emplace_back(left, output_record_bytes(m)));
  ProductStats stats;
  try {
    stats = cuda::multiply_parts(a, b, sinks, execution, decide, run);
  } catch (const slabs::SlabResultTooLarge&) {
    return std::nullopt;
  } catch (const FormatError&) {
    return std::nullopt;
  }
  stats.num_blocks = add_partials(partials, m, sink, run);
  return stats;
}

}  // namespace spmm
