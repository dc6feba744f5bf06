#include "engine/inner_product.hpp"

#include <algorithm>
#include <atomic>
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

constexpr double kMinBytes = 1e9;          // of both operands: less is uploaded before a sample pays
constexpr std::uint64_t kMaxRuns = 1024;   // of an operand, 16 records each: some milliseconds
constexpr std::uint64_t kRunRecords = 16;  // what is near in the file is near in the matrix
constexpr std::uint64_t kRunBytes = 32u << 10;
constexpr unsigned kMaxThreads = 4;

/// Runs of records all over a matrix.
class Sampler {
 public:
  Sampler(const Source& source, bool is_b)
      : source_(source),
        is_b_(is_b),
        record_(input_record_bytes(source.header().m)),
        per_run_(std::clamp<std::uint64_t>(kRunBytes / record_, 1, kRunRecords)),
        all_runs_((source.header().num_blocks + per_run_ - 1) / per_run_),
        num_runs_(std::min(all_runs_, kMaxRuns)) {
    sample_.is_whole = num_runs_ == all_runs_;
  }

  plan::SampledIndices run(unsigned num_threads, Workers& workers) {
    const std::uint64_t useful = std::min<std::uint64_t>(std::clamp(num_threads, 1U, kMaxThreads), num_runs_ / 64 + 1);
    workers.run(static_cast<unsigned>(useful), [&](unsigned) { work(); });
    return std::move(sample_);
  }

 private:
  void work() {
    std::vector<std::byte> records(per_run_ * record_);
    plan::SampledIndices own;
    for (std::uint64_t run = next_++; run < num_runs_; run = next_++) add_run(run, records, own);
    const std::lock_guard lock(mutex_);
    for (auto [from, to] : {std::pair{&own.rows, &sample_.rows}, std::pair{&own.columns, &sample_.columns},
                            std::pair{&own.inner, &sample_.inner}}) {
      to->insert(to->end(), from->begin(), from->end());
    }
  }

  void add_run(std::uint64_t run, std::vector<std::byte>& records, plan::SampledIndices& own) const {
    const MatrixHeader& header = source_.header();
    // Somewhere in its part of the file: a fixed place could always meet the same part of a pattern.
    const std::uint64_t shift = run * 0x9E37'79B9'7F4A'7C15u % (all_runs_ / num_runs_);
    const std::uint64_t first = (run * all_runs_ / num_runs_ + shift) * per_run_;
    const std::uint64_t count = std::min<std::uint64_t>(per_run_, header.num_blocks - first);
    source_.read(first, count, records.data());
    std::vector<std::uint32_t> rows;
    std::vector<std::uint32_t> columns;
    for (std::uint64_t x = 0; x < count; ++x) {
      const BlockIndex at = read_index(records.data() + x * record_);
      if (at.i >= header.blocks_per_side() || at.j >= header.blocks_per_side()) continue;
      rows.push_back(at.i);
      columns.push_back(at.j);
      own.inner.push_back(is_b_ ? at.i : at.j);
    }
    add_different(rows, own.rows);
    add_different(columns, own.columns);
  }

  static void add_different(std::vector<std::uint32_t>& from, std::vector<std::uint32_t>& to) {
    std::sort(from.begin(), from.end());
    from.erase(std::unique(from.begin(), from.end()), from.end());
    to.insert(to.end(), from.begin(), from.end());
  }

  const Source& source_;
  bool is_b_;
  std::uint64_t record_;
  std::uint64_t per_run_;
  std::uint64_t all_runs_;
  std::uint64_t num_runs_;
  std::atomic<std::uint64_t> next_{0};
  std::mutex mutex_;
  plan::SampledIndices sample_;
};

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
                                 Sampler(a, false).run(num_threads, workers),
                                 Sampler(b, true).run(num_threads, workers));
}

std::optional<ProductStats> multiply_by_inner(const Source& a, const Source& b, Sink& sink, plan::Execution& execution,
                                              const plan::Decide& decide, const Run& run) {
  const std::uint32_t m = a.header().m;
  const std::size_t num_parts = execution.inner_borders.size() + 1;
  std::vector<std::uint64_t> left_bytes(num_parts, execution.partial_bytes);
  std::deque<slabs::KeepingSink> partials;
  std::vector<Sink*> sinks;
  const slabs::KeptChunks chunks{.bytes = plan::kPartialChunkBytes, .pages = Pages::huge_where_large};
  for (std::uint64_t& left : left_bytes) {
    sinks.push_back(&partials.emplace_back(left, output_record_bytes(m), chunks));
  }
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
