// Lower bounds of sums of C on a device, for the proof: records are read, copied and scattered by threads of their own
// streams, then whole tiles are multiplied. Nothing is shared with the products but memory, streams and pinned slots.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/run/bound_task.hpp"
#include "cuda/backend.hpp"
#include "cuda/device/raii.hpp"
#include "kernels/tuning.hpp"
#include "kernels/verify/launch.hpp"

namespace spmm::cuda {
namespace {

static_assert(kernels::kBoundDone == BoundScale::kDone && kernels::kBoundTerms <= BoundScale::kMaxTerms);

constexpr std::uint64_t kMaxReaders = 8;      // 6 GB/s each from the page cache
constexpr std::uint64_t kSlotsPerReader = 2;  // one is read into while the other travels
constexpr double kMaxProducts = 3e13;         // of one launch, 0.1 s, between two looks for a cancellation
constexpr std::uint64_t kMinReaders = 1;
constexpr std::uint64_t kSpareBytes = 16u << 20;  // of the device's limit: claims, places, granules of the pool

constexpr std::uint64_t round_up(std::uint64_t x, std::uint64_t unit) {
  return (x + unit - 1) / unit * unit;
}

/// A pinned slot of the context.
class Slot {
 public:
  explicit Slot(DeviceContext& context) : context_(context), data_(context.take_slot()) {}
  ~Slot() { context_.put_slot(data_); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  DeviceContext& context_;
  std::byte* data_;
};

/// One thread's way from a source to a panel.
class Reader {
 public:
  explicit Reader(DeviceMemory& memory) : ways_{Way(memory), Way(memory)}, stream_(memory.context()) {}

  /// Reads records and has them scattered. Shapes: scatter(raw records on the device, stream).
  template <class Scatter>
  void put(const Source& source, std::uint64_t first, std::uint64_t count, const Scatter& scatter) {
    const MatrixHeader& header = source.header();
    Way& way = ways_[turn_++ % ways_.size()];
    way.done.synchronize();
    source.read(first, count, way.slot.data());
    copy_async(way.staging.data(), way.slot.data(), count * input_record_bytes(header.m), stream_);
    scatter(
        kernels::RawRecords{
            .bytes = way.staging.data(), .count = count, .m = header.m, .blocks_per_side = header.blocks_per_side()},
        stream_.get());
    way.done.record(stream_);
  }
  void finish() const { stream_.synchronize(); }

 private:
  struct Way {
    explicit Way(DeviceMemory& memory)
        : slot(memory.context()), staging(memory, kernels::kRingSlotBytes, "records to verify") {}
    Slot slot;
    DeviceBuffer<std::byte> staging;
    Event done{};
  };

  std::array<Way, kSlotsPerReader> ways_;
  Stream stream_;  // last: waits before the others go
  std::uint64_t turn_ = 0;
};

/// A panel and its memory.
struct Panel {
  DeviceBuffer<std::uint8_t> bytes{};
  DeviceBuffer<std::uint8_t> used{};
  kernels::BytePanel view{};

  void allocate(DeviceMemory& memory, std::uint64_t lines, std::uint64_t depth, std::uint32_t lines_per_tile) {
    bytes = {memory, lines * depth, "high bytes to verify"};
    used = {memory, lines / lines_per_tile * (depth / kernels::kBoundChunk), "high bytes to verify"};
    view = {
        .bytes = bytes.data(), .used = used.data(), .num_lines = 0, .depth = depth, .lines_per_tile = lines_per_tile};
  }
  /// Of so many lines from now on, without blocks.
  void clear(std::uint64_t lines, const Stream& stream) {
    view.num_lines = round_up(lines, view.lines_per_tile);
    check(cudaMemsetAsync(view.bytes, 0, view.num_lines * view.depth, stream.get()), "clear");
    check(cudaMemsetAsync(view.used, 0, view.num_lines / view.lines_per_tile * (view.depth / kernels::kBoundChunk),
                          stream.get()),
          "clear");
    stream.synchronize();  // other streams write
  }
};

/// One task on one device. Threads: the device is current.
class DeviceBounds {
 public:
  DeviceBounds(DeviceContext& context, std::uint64_t limit_bytes, MemoryShare* share, const BoundTask& task,
               const Run& run)
      : context_(context),
        task_(task),
        run_(run),
        m_(task.m()),
        nb_(task.a.header().blocks_per_side()),
        n_(task.a.header().n),
        depth_(round_up(n_, kernels::kBoundChunk)),
        words_(BoundTask::words_per_row(nb_)),
        scale_(BoundScale::of(task.largest_a, task.largest_b, 8, 8)),
        stream_(context),
        memory_(stream_, limit_bytes, share) {}

  /// False if the memory is too small.
  bool run() {
    if (depth_ > std::uint64_t{kernels::kBoundChunk} * kernels::kMaxBoundChunks) return false;
    if (!divide()) return false;
    for (std::size_t x = 0; x < num_readers_; ++x) readers_.push_back(std::make_unique<Reader>(memory_));
    places_ = {memory_, nb_, "places to verify"};
    claims_ = {memory_, rows_at_once_ * words_, "claims to verify"};
    num_done_ = {memory_, 1, "claims to verify"};
    a_.allocate(memory_, round_up(rows_at_once_ * m_, kernels::kBoundRows), depth_, kernels::kBoundRows);
    b_.allocate(memory_, round_up(columns_at_once_, kernels::kBoundColumns), depth_, kernels::kBoundColumns);
    for (std::uint64_t row = 0; row < task_.rows.size(); row += rows_at_once_) {
      const std::uint64_t num_rows = std::min<std::uint64_t>(rows_at_once_, task_.rows.size() - row);
      const std::span<std::uint32_t> claims = task_.claims.subspan(row * words_, num_rows * words_);
      load_a(row, num_rows);
      copy_async(claims_.data(), static_cast<const std::uint32_t*>(claims.data()), claims.size(), stream_);
      for (std::uint64_t column = 0; column < n_; column += columns_at_once_) {
        if (row == 0 || columns_at_once_ < n_) load_b(column, std::min<std::uint64_t>(columns_at_once_, n_ - column));
        prove(num_rows, column);
      }
      copy_async(claims.data(), static_cast<const std::uint32_t*>(claims_.data()), claims.size(), stream_);
      stream_.synchronize();
    }
    return true;
  }

 private:
  /// How many block rows of A and element columns of B are on the device at once.
  bool divide() {
    constexpr std::uint64_t kReaderBytes = kSlotsPerReader * kernels::kRingSlotBytes;
    const std::uint64_t most = memory_.most_bytes();
    const std::uint64_t fixed = kSpareBytes + nb_ * sizeof(std::uint32_t);
    num_readers_ = std::min<std::uint64_t>({kMaxReaders, run_.num_threads, most / 8 / kReaderBytes});
    num_readers_ = std::max(num_readers_, kMinReaders);
    const std::uint64_t held = fixed + num_readers_ * kReaderBytes;
    if (most < held) return false;
    const std::uint64_t lines = (most - held) / (depth_ + depth_ / kernels::kBoundChunk + words_);
    const std::uint64_t all_a = round_up(task_.rows.size() * m_, kernels::kBoundRows);
    const std::uint64_t all_b = round_up(n_, kernels::kBoundColumns);
    const std::uint64_t lines_a = std::min(all_a, std::max(lines / 2, lines > all_b ? lines - all_b : 0));
    const std::uint64_t lines_b = std::min(all_b, lines - lines_a) / kernels::kBoundColumns * kernels::kBoundColumns;
    rows_at_once_ =
        std::min<std::uint64_t>(task_.rows.size(), lines_a / kernels::kBoundRows * kernels::kBoundRows / m_);
    columns_at_once_ = std::min(lines_b, n_);
    return rows_at_once_ != 0 && columns_at_once_ != 0;
  }

  void load_a(std::uint64_t first, std::uint64_t count) {
    std::vector<std::uint32_t> places(nb_, kernels::kNoPlace);
    for (std::uint64_t x = 0; x < count; ++x) places[task_.rows[first + x]] = static_cast<std::uint32_t>(x);
    copy_async(places_.data(), static_cast<const std::uint32_t*>(places.data()), places.size(), stream_);
    a_.clear(count * m_, stream_);
    load(task_.a, [&](const kernels::RawRecords& records, cudaStream_t stream) {
      kernels::launch_scatter_rows(records, places_.data(), scale_.shift_a, a_.view, stream);
    });
  }
  void load_b(std::uint64_t first, std::uint64_t count) {
    b_.clear(count, stream_);
    load(task_.b, [&](const kernels::RawRecords& records, cudaStream_t stream) {
      kernels::launch_scatter_columns(records, first, scale_.shift_b, b_.view, stream);
    });
  }

  template <class Scatter>
  void load(const Source& source, const Scatter& scatter) {
    const std::uint64_t total = source.header().num_blocks;
    const std::uint64_t chunk = kernels::kRingSlotBytes / input_record_bytes(m_);
    std::atomic<std::uint64_t> next{0};
    run_.run_workers(static_cast<unsigned>(readers_.size()), [&](unsigned x) {
      const DeviceGuard guard(context_.device());
      Reader& reader = *readers_[x];
      for (std::uint64_t first = 0; (first = next.fetch_add(chunk)) < total;) {
        run_.check_cancelled();
        reader.put(source, first, std::min(chunk, total - first), scatter);
      }
      reader.finish();
    });
  }

  /// Launches of a bounded time, so that the program can be stopped.
  void prove(std::uint64_t num_rows, std::uint64_t first_column) {
    const double products_per_tile =
        static_cast<double>(kernels::kBoundRows) * static_cast<double>(b_.view.num_lines) * static_cast<double>(depth_);
    const std::uint64_t tiles =
        std::max<std::uint64_t>(1, static_cast<std::uint64_t>(kMaxProducts / products_per_tile));
    const std::uint64_t step = tiles * kernels::kBoundRows;
    for (std::uint64_t line = 0; line < a_.view.num_lines; line += step) {
      run_.check_cancelled();
      kernels::BytePanel part = a_.view;
      part.bytes += line * depth_;
      part.used += line / kernels::kBoundRows * (depth_ / kernels::kBoundChunk);
      part.num_lines = std::min(step, a_.view.num_lines - line);
      check(cudaMemsetAsync(num_done_.data(), 0, sizeof(std::uint32_t), stream_.get()), "clear");
      kernels::launch_prove_claims(part, b_.view,
                                   {.words = claims_.data(),
                                    .num_rows = static_cast<std::uint32_t>(num_rows),
                                    .words_per_row = static_cast<std::uint32_t>(words_),
                                    .m = m_,
                                    .blocks_per_side = nb_,
                                    .first_row = static_cast<std::uint32_t>(line),
                                    .first_column = static_cast<std::uint32_t>(first_column),
                                    .limit = scale_.limit,
                                    .num_done = num_done_.data()},
                                   stream_.get());
      const std::uint64_t num_tiles = kernels::bound_tiles(part, b_.view);
      const std::uint32_t num_done = fetch(num_done_.data(), stream_);
      if (num_done != num_tiles) throw CudaError("prove_claims: not all tiles are done");  // nothing would be proven
    }
  }

  DeviceContext& context_;
  const BoundTask& task_;
  const Run& run_;
  std::uint32_t m_;
  std::uint32_t nb_;
  std::uint64_t n_;
  std::uint64_t depth_;
  std::uint64_t words_;
  BoundScale scale_;
  std::uint64_t num_readers_ = 0;
  std::uint64_t rows_at_once_ = 0;     // block rows of A
  std::uint64_t columns_at_once_ = 0;  // element columns of B
  Stream stream_;
  DeviceMemory memory_;
  Panel a_{};
  Panel b_{};
  DeviceBuffer<std::uint32_t> places_{};  // [blocks per side]
  DeviceBuffer<std::uint32_t> claims_{};  // [rows_at_once, words]
  DeviceBuffer<std::uint32_t> num_done_{};
  std::vector<std::unique_ptr<Reader>> readers_{};
};

}  // namespace

BoundProver bounds_on(DeviceContext& context, std::uint64_t limit_bytes, MemoryShare* share) {
  if (!kernels::can_prove_bounds(context.properties().major)) return {};
  return [&context, limit_bytes, share](const BoundTask& task, const Run& run) {
    if (task.rows.empty()) return true;
    try {
      const DeviceGuard guard(context.device());
      return DeviceBounds(context, limit_bytes, share, task, run).run();
    } catch (const OutOfMemory&) {
      return false;  // the host can do it
    } catch (const DeviceError&) {
      return false;
    } catch (const CudaError&) {
      return false;
    }
  };
}

}  // namespace spmm::cuda
