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
#include "plan/kernel_choice.hpp"
#include "plan/panels.hpp"
#include "plan/planner.hpp"

namespace spmm::cuda {
namespace {

/// Device arrays that every panel uses again.
class PanelBuffers {
 public:
  PanelBuffers(DeviceMemory& memory, std::uint64_t max_tiles, std::uint32_t m)
      : values_(memory, max_tiles * m * m, "result elements"),
        non_zero_(memory, max_tiles, "flags"),
        positions_(memory, max_tiles, "positions"),
        work_(memory, kernels::compact_workspace_bytes(max_tiles), "panel work space") {}

  [[nodiscard]] kernels::TileResults results() const {
    return {.values = values_.data(), .non_zero = non_zero_.data()};
  }
  [[nodiscard]] kernels::Workspace workspace() const { return {.data = work_.data(), .bytes = work_.size()}; }
  [[nodiscard]] std::uint32_t* positions() const { return positions_.data(); }

 private:
  DeviceBuffer<std::uint32_t> values_;     // [max_tiles, m, m]
  DeviceBuffer<std::uint8_t> non_zero_;    // [max_tiles]
  DeviceBuffer<std::uint32_t> positions_;  // [max_tiles]
  DeviceBuffer<std::byte> work_;
};

/// Errors: UsageError if the host-driven kernel would launch more often than is sensible.
void check_num_launches(const std::vector<plan::Panel>& panels, bool force) {
  std::uint64_t launches = 0;
  for (const plan::Panel& panel : panels) launches += panel.max_tiles();
  if (force || launches <= kernels::kMaxHostDrivenLaunches) return;
  throw UsageError("--kernel host-driven",
                   text("up to ", launches, " launches, one per result block; more than ",
                        kernels::kMaxHostDrivenLaunches, " take minutes"),
                   "use another kernel, or add --force");
}

/// One product on one device.
class Pipeline {
 public:
  Pipeline(Sink& sink, const Plan& plan, int device, bool force, const RunContext& context)
      : sink_(sink),
        plan_(plan),
        device_(device),
        force_(force),
        context_(context),
        memory_(device, plan.device_limit_bytes) {
    check(cudaGetDeviceProperties(&properties_, device), "device properties");
  }

  ProductStats run(const Source& a, const Source& b) {
    m_ = a.header().m;
    max_tiles_ = plan_.panel_bytes / output_record_bytes(m_);
    SortedPair sorted = sort_and_count(a, b);
    ProductStats stats{.pairs = sorted.num_pairs(), .device = properties_.name};
    choose_kernel(sorted, stats);
    const KernelNeeds needs = kernel_needs(stats.kernel);
    const std::vector<std::uint64_t> row_pair_offsets = std::move(sorted.row_pair_offsets);
    Operands operands;
    {
      const auto timing = context_.clock.scope(Stage::build);
      operands = arrange_operands(std::move(sorted), needs.b_by_columns, memory_, stream_);
    }
    std::vector<plan::Panel> panels;
    {
      const auto timing = context_.clock.scope(Stage::plan);
      panels = plan::cut_panels(row_pair_offsets, operands.num_tile_columns(), max_tiles_, needs.listing);
      if (stats.kernel == "host-driven") check_num_launches(panels, force_);
    }
    stats.num_panels = panels.size();
    if (!panels.empty()) stats.num_blocks = run_panels(operands, panels, stats.kernel);
    events_.collect(context_.clock);
    stats.peak_device_bytes = memory_.peak_bytes();
    return stats;
  }

 private:
  SortedPair sort_and_count(const Source& a, const Source& b) {
    ParsedPair parsed = upload(a, b, device_, plan_.num_threads, plan_.num_buffers, ring_, memory_, events_, context_);
    SortedPair sorted;
    {
      const auto timing = context_.clock.scope(Stage::build);
      sorted = sort_rows(std::move(parsed), a, b, memory_, stream_);
    }
    context_.check_cancelled();
    const auto timing = context_.clock.scope(Stage::count);
    count_pairs(sorted, memory_, stream_);
    return sorted;
  }

  /// The planner's choice where the user has none, from exact counts.
  void choose_kernel(const SortedPair& sorted, ProductStats& stats) {
    const auto timing = context_.clock.scope(Stage::plan);
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
                                       .num_pairs = sorted.num_pairs(),
                                       .num_rows = sorted.a.index.num_lines,
                                       .num_tiles = 0,
                                       .max_element = std::max(sorted.a.max_element, sorted.b.max_element),
                                       .has_dense_tensor = has_dense_tensor,
                                       .free_bytes = 0,
                                       .max_tiles = max_tiles_};
    const auto& offsets = sorted.row_pair_offsets;
    for (std::size_t r = 0; r + 1 < offsets.size(); ++r) {
      statistics.num_tiles += std::min<std::uint64_t>(offsets[r + 1] - offsets[r], sorted.nb);
    }
    if (plan_.device_limit_bytes > plan_.device_need_bytes) {
      statistics.free_bytes = plan_.device_limit_bytes - plan_.device_need_bytes;
    }
    const std::vector<plan::Candidate> candidates = plan::rank_kernels(statistics);
    stats.kernel = candidates.front().kernel;
    stats.reason += "; predicted " + plan::candidates_text(candidates);
  }

  std::uint64_t run_panels(const Operands& operands, const std::vector<plan::Panel>& panels,
                           const std::string& kernel) {
    std::uint64_t max_tiles = 0;
    for (const plan::Panel& panel : panels) max_tiles = std::max(max_tiles, panel.max_tiles());
    PanelBuffers buffers(memory_, max_tiles, m_);
    const std::uint64_t packed_bytes = max_tiles * output_record_bytes(m_);
    std::array<PackedPanel, 2> packed{PackedPanel(memory_, packed_bytes),
                                      PackedPanel(memory_, panels.size() > 1 ? packed_bytes : 0)};
    try {
      const std::unique_ptr<Multiplier> multiplier = make_multiplier(kernel, {.operands = operands,
                                                                              .panels = panels,
                                                                              .memory = memory_,
                                                                              .stream = stream_,
                                                                              .events = events_,
                                                                              .run = context_});
      Downloader downloader(sink_, device_, m_, plan_.num_buffers, ring_, events_, context_);
      for (std::size_t x = 0; x < panels.size(); ++x) {
        context_.check_cancelled();
        PackedPanel& target = packed[x % packed.size()];
        downloader.wait_until_free(target);
        compact(operands, multiplier->multiply(panels[x], buffers.results()), buffers, target);
        downloader.push(target);
        if (context_.on_progress) {
          context_.on_progress(Stage::multiply, panels[x].row_begin + std::uint64_t{panels[x].num_rows},
                               operands.a.num_lines);
        }
      }
      return downloader.finish();
    } catch (...) {
      (void)cudaDeviceSynchronize();  // kernels still use the buffers
      throw;
    }
  }

  /// Drops zero blocks and packs the others into records.
  void compact(const Operands& operands, const kernels::TilesView& tiles, const PanelBuffers& buffers,
               PackedPanel& target) {
    const kernels::TileResults results = buffers.results();
    events_.timed(Stage::compact, stream_, [&] {
      kernels::launch_positions(results.non_zero, tiles.num_tiles, buffers.positions(), target.num_blocks.data(),
                                buffers.workspace(), stream_.get());
      kernels::launch_pack_records(operands.a.lines.data(), operands.tile_columns(), tiles, results,
                                   buffers.positions(), m_, reinterpret_cast<std::uint32_t*>(target.records.data()),
                                   stream_.get());
    });
    target.ready.record(stream_);
  }

  Sink& sink_;
  const Plan& plan_;
  int device_;
  bool force_;
  const RunContext& context_;
  cudaDeviceProp properties_{};
  DeviceMemory memory_;
  PinnedRing ring_;
  StageEvents events_{stage_hooks()};
  Stream stream_;
  std::uint32_t m_ = 0;
  std::uint64_t max_tiles_ = 0;
};

}  // namespace

ProductStats multiply(const Source& a, const Source& b, Sink& sink, const Plan& plan, int device, bool force,
                      const RunContext& context) {
  check(cudaSetDevice(device), "choose device");
  return Pipeline(sink, plan, device, force, context).run(a, b);
}

}  // namespace spmm::cuda
