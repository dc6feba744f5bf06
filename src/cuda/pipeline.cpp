// The CUDA backend: upload, sort, count, choose, then panel by panel multiply and compact, while earlier panels leave.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "cuda/cuda_backend.hpp"
#include "cuda/download.hpp"
#include "cuda/multiplier.hpp"
#include "cuda/operands.hpp"
#include "cuda/stage_events.hpp"
#include "cuda/upload.hpp"
#include "kernels/launch.hpp"
#include "kernels/tuning.hpp"
#include "plan/dense_plan.hpp"
#include "plan/kernel_choice.hpp"
#include "plan/panels.hpp"
#include "plan/planner.hpp"

namespace spmm::cuda {
namespace {

/// Errors: UsageError if the host-driven kernel would launch more often than is sensible.
void check_num_launches(const std::vector<plan::Panel>& panels, bool force) {
  std::uint64_t launches = 0;
  for (const plan::Panel& panel : panels) launches += panel.max_c_blocks();
  if (force || launches <= kernels::kMaxHostDrivenLaunches) return;
  throw UsageError("--kernel host-driven",
                   text("up to ", launches, " launches, one per result block; more than ",
                        kernels::kMaxHostDrivenLaunches, " take minutes"),
                   "use another kernel, or add --force");
}

/// One product on one device.
class Pipeline {
 public:
  Pipeline(Sink& sink, const Plan& plan, DeviceContext& context, bool force, const Run& run)
      : sink_(sink),
        plan_(plan),
        force_(force),
        run_(run),
        context_(context),
        properties_(context.properties()),
        stream_(context),
        memory_(stream_, plan.device_limit_bytes, run.memory),
        ring_(context, plan.num_buffers),
        events_(stage_hooks(), stream_) {}

  ProductStats run(const Source& a, const Source& b) {
    m_ = a.header().m;
    max_c_blocks_ = plan_.panel_bytes / output_record_bytes(m_);
    SortedPair sorted = sort_and_count(a, b);
    ProductStats stats{.pairs = sorted.num_pairs(), .device = properties_.name};
    choose_kernel(sorted, stats);
    const KernelNeeds needs = kernel_needs(stats.kernel);
    if (needs.listing == plan::Listing::never && sorted.row_pairs.rows_per_run > 1) {
      const auto timing = run_.clock.scope(Stage::count);
      fetch_row_pairs(sorted, 1, memory_, stream_);
    }
    const plan::RowPairs row_pairs = std::move(sorted.row_pairs);
    std::vector<plan::Panel> panels;
    const auto cut = [&](std::uint32_t num_columns) {
      const auto timing = run_.clock.scope(Stage::plan);
      panels = plan::cut_panels(row_pairs, num_columns, max_c_blocks_, needs.listing);
    };
    Arrangement arrangement = Arrangement::b_by_columns;
    if (needs.is_dense) {  // reads every block once: pairs and order do not matter
      arrangement = Arrangement::rows_file_order;
      sorted.b_row_index = {};
      sorted.pair_offsets = {};
    } else if (!needs.b_by_columns) {
      cut(sorted.nb);
      const bool all_listed = std::all_of(panels.begin(), panels.end(), [](const auto& p) { return p.expand; });
      arrangement = all_listed ? Arrangement::rows_file_order : Arrangement::rows;
    }
    Operands operands;
    events_.timed(Stage::build, stream_,
                  [&] { operands = arrange_operands(std::move(sorted), arrangement, memory_, stream_); });
    if (needs.is_dense) {
      const std::uint64_t c_blocks = plan::dense_panel_blocks(operands.nb, m_, max_c_blocks_, memory_.free_bytes());
      if (c_blocks != 0) max_c_blocks_ = c_blocks;  // else the multiplier says what is missing
    }
    if (needs.is_dense || needs.b_by_columns) cut(operands.num_c_columns());
    if (stats.kernel == "host-driven") check_num_launches(panels, force_);
    stats.num_panels = panels.size();
    if (!panels.empty()) stats.num_blocks = run_panels(operands, panels, stats.kernel);
    events_.collect(run_.clock);
    stats.peak_device_bytes = memory_.peak_bytes();
    return stats;
  }

 private:
  SortedPair sort_and_count(const Source& a, const Source& b) {
    ParsedPair parsed = upload(a, b, ring_, memory_, events_, run_);
    SortedPair sorted;
    events_.timed(Stage::build, stream_, [&] { sorted = sort_rows(std::move(parsed), a, b, memory_, stream_); });
    run_.check_cancelled();
    events_.timed(Stage::count, stream_, [&] { count_pairs(sorted, max_c_blocks_ / 8, memory_, stream_); });
    return sorted;
  }

  /// The planner's choice where the user has none, from exact counts.
  void choose_kernel(const SortedPair& sorted, ProductStats& stats) {
    const auto timing = run_.clock.scope(Stage::plan);
    stats.kernel = plan_.kernel;
    stats.reason = plan_.reason;
    const bool has_dense_tensor = kernels::has_dense_tensor(properties_.major, properties_.minor);
    if (stats.kernel == "dense-tensor" && !has_dense_tensor) {
      throw DeviceError("--kernel dense-tensor", text(properties_.name, " has no warpgroup matrix products"),
                        "leave --kernel out");
    }
    if (stats.kernel != "auto") return;
    plan::ProductStatistics statistics{.m = m_,
                                       .nb = sorted.nb,
                                       .num_blocks = sorted.a.numbers.size() + sorted.b.numbers.size(),
                                       .num_pairs = sorted.num_pairs(),
                                       .num_rows = sorted.a.index.num_rows,
                                       .num_c_blocks = 0,
                                       .max_element = std::max(sorted.a.max_element, sorted.b.max_element),
                                       .has_dense_tensor = has_dense_tensor,
                                       .free_bytes = memory_.free_bytes(),
                                       .max_c_blocks = max_c_blocks_};
    const plan::RowPairs& rows = sorted.row_pairs;
    for (std::size_t x = 0; x < rows.num_runs(); ++x) {
      const std::uint64_t c_blocks = std::uint64_t{rows.first_row(x + 1) - rows.first_row(x)} * sorted.nb;
      statistics.num_c_blocks += std::min(rows.offsets[x + 1] - rows.offsets[x], c_blocks);
    }
    const std::vector<plan::Candidate> candidates = plan::rank_kernels(statistics);
    stats.kernel = candidates.front().kernel;
    stats.reason += "; predicted " + plan::candidates_text(candidates);
  }

  std::uint64_t run_panels(const Operands& operands, const std::vector<plan::Panel>& panels,
                           const std::string& kernel) {
    std::uint64_t max_c_blocks = 0;
    for (const plan::Panel& panel : panels) max_c_blocks = std::max(max_c_blocks, panel.max_c_blocks());
    const std::uint64_t packed_bytes = max_c_blocks * output_record_bytes(m_);
    std::array<PackedPanel, 2> packed{PackedPanel(memory_, packed_bytes),
                                      PackedPanel(memory_, panels.size() > 1 ? packed_bytes : 0)};
    const std::unique_ptr<Multiplier> multiplier = make_multiplier(kernel, {.operands = operands,
                                                                            .panels = panels,
                                                                            .memory = memory_,
                                                                            .max_c_blocks = max_c_blocks,
                                                                            .stream = stream_,
                                                                            .events = events_,
                                                                            .run = run_});
    Downloader downloader(sink_, m_, ring_, context_, events_, run_);
    const SettledAtEnd settled(stream_);  // kernels write pinned words of the panels and of the multiplier
    for (std::size_t x = 0; x < panels.size(); ++x) {
      run_.check_cancelled();
      PackedPanel& target = packed[x % packed.size()];
      downloader.wait_until_free(target);
      multiplier->multiply(panels[x], target);
      target.ready.record(stream_);
      downloader.push(target);
      if (run_.on_progress) {
        run_.on_progress(Stage::multiply, panels[x].row_begin + std::uint64_t{panels[x].num_rows}, operands.a.num_rows);
      }
    }
    return downloader.finish();
  }

  Sink& sink_;
  const Plan& plan_;
  bool force_;
  const Run& run_;
  DeviceContext& context_;
  const cudaDeviceProp& properties_;
  Stream stream_;
  DeviceMemory memory_;
  PinnedRing ring_;
  StageEvents events_;
  std::uint32_t m_ = 0;
  std::uint64_t max_c_blocks_ = 0;
};

}  // namespace

ProductStats multiply(const Source& a, const Source& b, Sink& sink, const Plan& plan, bool force, const Run& run) {
  const DeviceGuard guard(run.device->device());
  return Pipeline(sink, plan, *run.device, force, run).run(a, b);
}

}  // namespace spmm::cuda
