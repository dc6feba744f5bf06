// The CUDA backend: upload, build, count, then panel by panel list, multiply, compact, while earlier panels leave.
#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "base/text.hpp"
#include "cuda/cuda_backend.hpp"
#include "cuda/download.hpp"
#include "cuda/host_driven.hpp"
#include "cuda/operands.hpp"
#include "cuda/stage_events.hpp"
#include "cuda/upload.hpp"
#include "kernels/launch.hpp"
#include "kernels/tuning.hpp"
#include "plan/panels.hpp"

namespace spmm::cuda {
namespace {

/// Device arrays that every panel uses again.
class PanelBuffers {
 public:
  PanelBuffers(DeviceMemory& memory, std::uint64_t max_tiles, std::uint64_t max_pairs, std::uint32_t m)
      : values_(memory, max_tiles * m * m, "result elements"),
        non_zero_(memory, max_tiles, "flags"),
        positions_(memory, max_tiles, "positions"),
        num_unique_(memory, 1, "count"),
        keys_{DeviceBuffer<std::uint64_t>(memory, max_pairs, "pair keys"),
              DeviceBuffer<std::uint64_t>(memory, max_pairs, "pair keys")},
        tiles_(memory, max_pairs, "tile keys"),
        work_(memory,
              std::max(kernels::compact_workspace_bytes(max_tiles),
                       max_pairs == 0 ? 0 : kernels::list_tiles_workspace_bytes(max_pairs)),
              "panel work space") {}

  [[nodiscard]] kernels::TileResults results() const {
    return {.values = values_.data(), .non_zero = non_zero_.data()};
  }
  [[nodiscard]] kernels::Workspace workspace() const { return {.data = work_.data(), .bytes = work_.size()}; }
  [[nodiscard]] std::uint32_t* positions() const { return positions_.data(); }

  /// The tiles of a panel; waits for the stream where they are listed by expansion.
  kernels::TilesView list_tiles(const plan::Panel& panel, const Operands& operands, const Stream& stream) {
    const std::uint32_t num_columns = operands.b.index.num_lines;
    kernels::TilesView tiles{.num_tiles = std::uint64_t{panel.num_rows} * panel.num_columns,
                             .row_begin = panel.row_begin,
                             .num_rows = panel.num_rows,
                             .column_begin = panel.column_begin,
                             .num_columns = panel.num_columns,
                             .column_bits = static_cast<unsigned>(std::bit_width(num_columns))};
    if (!panel.expand) return tiles;
    kernels::SortBuffers<std::uint64_t> keys{{keys_[0].data(), keys_[1].data()}};
    kernels::launch_list_tiles(operands.expand_view(), panel.row_begin, panel.num_rows, panel.first_pair,
                               panel.num_pairs, tiles.column_bits, keys, tiles_.data(), num_unique_.data(), workspace(),
                               stream.get());
    tiles.num_tiles = fetch(num_unique_.data(), stream);
    tiles.keys = tiles_.data();
    return tiles;
  }

 private:
  DeviceBuffer<std::uint32_t> values_;     // [max_tiles, m, m]
  DeviceBuffer<std::uint8_t> non_zero_;    // [max_tiles]
  DeviceBuffer<std::uint32_t> positions_;  // [max_tiles]
  DeviceBuffer<std::uint32_t> num_unique_;
  std::array<DeviceBuffer<std::uint64_t>, 2> keys_;  // [max_pairs] each
  DeviceBuffer<std::uint64_t> tiles_;                // [max_pairs]
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
      : sink_(sink), plan_(plan), device_(device), force_(force), context_(context), memory_(plan.device_limit_bytes) {}

  ProductStats run(const Source& a, const Source& b) {
    m_ = a.header().m;
    ParsedPair parsed = upload(a, b, device_, plan_.num_threads, memory_, events_, context_);
    Operands operands;
    {
      const auto timing = context_.clock.scope(Stage::build);
      operands = build_operands(std::move(parsed), a, b, memory_, stream_);
    }
    context_.check_cancelled();
    {
      const auto timing = context_.clock.scope(Stage::count);
      count_pairs(operands, memory_, stream_);
    }
    std::vector<plan::Panel> panels;
    {
      const auto timing = context_.clock.scope(Stage::plan);
      panels = plan::cut_panels(operands.row_pair_offsets, operands.b.index.num_lines,
                                plan_.panel_bytes / output_record_bytes(m_));
      if (plan_.kernel == "host-driven") check_num_launches(panels, force_);
    }
    ProductStats stats{.pairs = operands.num_pairs(), .num_panels = panels.size()};
    if (!panels.empty()) stats.num_blocks = run_panels(operands, panels);
    events_.collect(context_.clock);
    stats.peak_device_bytes = memory_.peak_bytes();
    return stats;
  }

 private:
  std::uint64_t run_panels(const Operands& operands, const std::vector<plan::Panel>& panels) {
    std::uint64_t max_tiles = 0;
    std::uint64_t max_pairs = 0;
    for (const plan::Panel& panel : panels) {
      max_tiles = std::max(max_tiles, panel.max_tiles());
      if (panel.expand) max_pairs = std::max(max_pairs, panel.num_pairs);
    }
    PanelBuffers buffers(memory_, max_tiles, max_pairs, m_);
    const std::uint64_t packed_bytes = max_tiles * output_record_bytes(m_);
    std::array<PackedPanel, 2> packed{PackedPanel(memory_, packed_bytes),
                                      PackedPanel(memory_, panels.size() > 1 ? packed_bytes : 0)};
    std::optional<HostDriven> host_driven;
    if (plan_.kernel == "host-driven") host_driven.emplace(operands, stream_);
    Downloader downloader(sink_, device_, m_, plan_.num_buffers, events_, context_);
    try {
      for (std::size_t x = 0; x < panels.size(); ++x) {
        context_.check_cancelled();
        PackedPanel& target = packed[x % packed.size()];
        downloader.wait_until_free(target);
        compute(operands, panels[x], buffers, host_driven, target);
        downloader.push(target);
        if (context_.on_progress) {
          context_.on_progress(Stage::multiply, panels[x].row_begin + std::uint64_t{panels[x].num_rows},
                               operands.a.index.num_lines);
        }
      }
      return downloader.finish();
    } catch (...) {
      (void)cudaDeviceSynchronize();  // kernels still use the buffers
      throw;
    }
  }

  void compute(const Operands& operands, const plan::Panel& panel, PanelBuffers& buffers,
               std::optional<HostDriven>& host_driven, PackedPanel& target) {
    kernels::TilesView tiles;
    events_.timed(Stage::count, stream_, [&] { tiles = buffers.list_tiles(panel, operands, stream_); });
    const kernels::TileResults results = buffers.results();
    const kernels::OperandView a = operands.a.view();
    const kernels::OperandView b = operands.b.view();
    events_.timed(Stage::multiply, stream_, [&] {
      if (host_driven) {
        host_driven->multiply(operands, tiles, m_, results, stream_, context_);
      } else if (plan_.kernel == "binary-search") {
        kernels::launch_mul_binary_search(a, b, tiles, m_, results, stream_.get());
      } else {
        kernels::launch_mul_two_pointer(a, b, tiles, m_, results, stream_.get());
      }
    });
    events_.timed(Stage::compact, stream_, [&] {
      kernels::launch_positions(results.non_zero, tiles.num_tiles, buffers.positions(), target.num_blocks.data(),
                                buffers.workspace(), stream_.get());
      kernels::launch_pack_records(a, b, tiles, results, buffers.positions(), m_,
                                   reinterpret_cast<std::uint32_t*>(target.records.data()), stream_.get());
    });
    target.ready.record(stream_);
  }

  Sink& sink_;
  const Plan& plan_;
  int device_;
  bool force_;
  const RunContext& context_;
  DeviceMemory memory_;
  StageEvents events_;
  Stream stream_;
  std::uint32_t m_ = 0;
};

}  // namespace

ProductStats multiply(const Source& a, const Source& b, Sink& sink, const Plan& plan, int device, bool force,
                      const RunContext& context) {
  check(cudaSetDevice(device), "choose device");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "device properties");
  ProductStats stats = Pipeline(sink, plan, device, force, context).run(a, b);
  stats.device = properties.name;
  return stats;
}

}  // namespace spmm::cuda
