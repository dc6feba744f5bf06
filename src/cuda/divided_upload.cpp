#include "cuda/divided_upload.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <deque>
#include <mutex>
#include <utility>

#include "base/aligned_array.hpp"
#include "base/record_errors.hpp"
#include "base/record_head.hpp"
#include "cuda/part_records.hpp"
#include "cuda/upload_lane.hpp"
#include "kernels/tuning.hpp"
#include "plan/device_bytes.hpp"
#include "plan/inner_parts.hpp"

namespace spmm::cuda {
namespace {

/// Half a slot, and the points at which it is free again: one for each device.
struct HalfSlot {
  std::byte* host = nullptr;
  std::vector<Event> free{};

  void synchronize() const {
    for (const Event& event : free) event.synchronize();
  }
};

/// Slots of several rings, taken in turns; they go back in the end.
class LentSlots {
 public:
  LentSlots(std::span<PinnedRing* const> rings, std::uint64_t max_slots) {
    lent_.reserve(max_slots);
    for (std::uint64_t turn = 0; lent_.size() < max_slots; ++turn) {
      PinnedRing& ring = *rings[turn % rings.size()];
      std::byte* const slot = turn / rings.size() < ring.max_slots() ? ring.take() : nullptr;
      if (slot != nullptr) {
        lent_.push_back({&ring, slot});
      } else if (turn / rings.size() >= ring.max_slots()) {
        break;
      }
    }
  }
  ~LentSlots() {
    for (const auto& [ring, slot] : lent_) ring->put(slot);
  }
  LentSlots(const LentSlots&) = delete;
  LentSlots& operator=(const LentSlots&) = delete;

  [[nodiscard]] std::uint64_t num_halves() const { return 2 * lent_.size(); }
  [[nodiscard]] std::byte* half(std::uint64_t x) const {
    return lent_[x / 2].second + x % 2 * (kernels::kRingSlotBytes / 2);
  }

 private:
  std::vector<std::pair<PinnedRing*, std::byte*>> lent_;
};

/// Records of one matrix on their way to all devices.
struct Lane {
  const Source& source;
  bool is_b = false;
  std::uint64_t section_records;
  std::uint64_t chunk_records;     // that a reader takes at a time
  std::deque<Destination> to{};    // a device each
  std::deque<std::mutex> mutex{};  // a device each: guards its stream, and
  std::vector<std::uint64_t> num_records{};

  [[nodiscard]] std::uint64_t num_chunks() const {
    return (source.header().num_blocks + chunk_records - 1) / chunk_records;
  }
};

/// What a reader works with: a piece as it was read, and where its half slot has records of each device.
struct Desk {
  AlignedArray<std::byte> raw;
  std::vector<std::uint32_t> device;  // [records of a piece]
  PartedRecords parted;
  std::vector<HalfSlot> halves;
};

/// Records of a piece: read, looked at and copied again while they are in the cache.
std::uint64_t piece_records(std::uint64_t record_bytes) {
  constexpr std::uint64_t kPieceBytes = 256u << 10;
  return std::max<std::uint64_t>(1, kPieceBytes / record_bytes);
}

class DividedUploader {
 public:
  DividedUploader(Lane& a, Lane& b, unsigned key_bits, std::span<const std::uint32_t> borders,
                  std::span<const UploadTarget> targets, const Run& run)
      : a_(a), b_(b), key_bits_(key_bits), borders_(borders), targets_(targets), run_(run) {}

  void run(std::span<PinnedRing* const> rings) {
    const std::uint64_t num_chunks = a_.num_chunks() + b_.num_chunks();
    if (num_chunks == 0) return;
    const LentSlots slots(rings, num_chunks);
    const auto num_readers = static_cast<unsigned>(
        std::min<std::uint64_t>({slots.num_halves(), num_chunks, plan::inner_readers(run_.num_threads)}));
    std::atomic<std::uint64_t> next{0};
    run_.run_workers(num_readers, [&](unsigned reader) {
      const DeviceGuard guard(targets_.front().memory.context().device());
      Desk desk = make_desk(slots, reader, num_readers);
      try {
        for (std::uint64_t turn = 0;; ++turn) {
          const std::uint64_t x = next.fetch_add(1);
          if (x >= num_chunks) break;
          send(x, desk.halves[turn % desk.halves.size()], desk);
        }
      } catch (...) {
        next = num_chunks;
        for (const HalfSlot& half : desk.halves) half.synchronize();  // copies from it must end before it goes back
        throw;
      }
      for (const HalfSlot& half : desk.halves) half.synchronize();
    });
    finish_sections(a_);
    finish_sections(b_);
  }

 private:
  Desk make_desk(const LentSlots& slots, unsigned reader, unsigned num_readers) const {
    const std::uint64_t record = input_record_bytes(a_.source.header().m);
    PartedRecords parted(targets_.size(), record);
    const std::uint64_t chunk = std::max(a_.chunk_records, b_.chunk_records);
    const std::uint64_t most = parted.takes_pieces() ? piece_records(record) : chunk;
    Desk desk{.raw = AlignedArray<std::byte>(most * record),
              .device = std::vector<std::uint32_t>(most),
              .parted = std::move(parted),
              .halves = {}};
    for (std::uint64_t x = reader; x < slots.num_halves(); x += num_readers) {
      HalfSlot half{.host = slots.half(x), .free = {}};
      for (const UploadTarget& target : targets_) {
        const DeviceGuard guard(target.memory.context().device());
        half.free.emplace_back();
      }
      desk.halves.push_back(std::move(half));
    }
    return desk;
  }

  /// Chunks of A and B in turn, as long as both have some.
  std::pair<Lane*, std::uint64_t> chunk(std::uint64_t x) const {
    const std::uint64_t both = std::min(a_.num_chunks(), b_.num_chunks());
    if (x < 2 * both) return {x % 2 == 0 ? &a_ : &b_, x / 2};
    return {a_.num_chunks() > both ? &a_ : &b_, x - both};
  }

  void send(std::uint64_t x, const HalfSlot& half, Desk& desk) {
    run_.check_cancelled();
    const auto [lane, number] = chunk(x);
    const MatrixHeader& header = lane->source.header();
    const std::uint64_t record = input_record_bytes(header.m);
    const std::uint64_t first = number * lane->chunk_records;
    const std::uint64_t count = std::min<std::uint64_t>(lane->chunk_records, header.num_blocks - first);
    half.synchronize();
    {
      const auto timing = run_.clock.scope(Stage::read, {.bytes = count * record});
      desk.parted.start(half.host, count);
      for (std::uint64_t at = 0; at < count; at += desk.device.size()) {
        const std::uint64_t some = std::min<std::uint64_t>(desk.device.size(), count - at);
        lane->source.read(first + at, some, desk.raw.data());
        find_devices(*lane, first + at, some, desk);
        desk.parted.add(desk.raw.data(), {desk.device.data(), some});
      }
    }
    run_.clock.add_bytes(Stage::read, count * record);
    run_.clock.add_bytes(Stage::h2d, count * record);
    for (std::size_t d = 0; d < targets_.size(); ++d) {
      put_on_stream(*lane, d, desk.parted.first(d), desk.parted.count(d), half.free[d]);
    }
    const std::lock_guard lock(progress_mutex_);
    done_bytes_ += count * record;
    const std::uint64_t total = (std::uint64_t{a_.source.header().num_blocks} + b_.source.header().num_blocks) * record;
    if (run_.on_progress) run_.on_progress(Stage::read, done_bytes_, total);
  }

  /// Whose records these are.
  void find_devices(const Lane& lane, std::uint64_t first, std::uint64_t count, Desk& desk) const {
    const MatrixHeader& header = lane.source.header();
    const std::uint64_t record = input_record_bytes(header.m);
    const std::uint32_t nb = header.blocks_per_side();
    for (std::uint64_t r = 0; r < count; ++r) {
      const BlockIndex at = read_index(desk.raw.data() + r * record);
      if (at.i >= nb || at.j >= nb) throw_index_out_of_range(lane.source, first + r, at);
      const std::uint32_t inner = lane.is_b ? at.i : at.j;
      std::uint32_t d = 0;
      for (const std::uint32_t border : borders_) d += static_cast<std::uint32_t>(inner >= border);
      desk.device[r] = d;
    }
  }

  /// Behind all records that the device got before; sections are parsed as they become whole.
  void put_on_stream(Lane& lane, std::size_t d, const std::byte* from, std::uint64_t count, const Event& free) {
    if (count == 0) return;
    const MatrixHeader& header = lane.source.header();
    const std::uint64_t record = input_record_bytes(header.m);
    const std::lock_guard lock(lane.mutex[d]);
    on_device(targets_, d, [&] {
      Destination& to = lane.to[d];
      for (std::uint64_t& before = lane.num_records[d]; count > 0;) {
        const std::uint64_t in_section = before % lane.section_records;
        const std::uint64_t some = std::min(count, lane.section_records - in_section);
        to.events.timed(
            Stage::h2d, to.stream,
            [&] { copy_async(to.staging.front().data() + in_section * record, from, some * record, to.stream); },
            {.bytes = some * record});
        from += some * record;
        count -= some;
        before += some;
        if (in_section + some == lane.section_records) parse_last(lane, d, lane.section_records);
      }
      free.record(to.stream);
    });
  }

  /// Parses the last `count` records that the device got.
  void parse_last(Lane& lane, std::size_t d, std::uint64_t count) {
    const Section section{.turn = 0, .first = lane.num_records[d] - count, .num_records = count};
    parse(section, lane.source.header(), {.key_bits = key_bits_, .transpose = lane.is_b}, lane.to[d]);
  }

  void finish_sections(Lane& lane) {
    for (std::size_t d = 0; d < targets_.size(); ++d) {
      const std::uint64_t left = lane.num_records[d] % lane.section_records;
      if (left != 0) on_device(targets_, d, [&] { parse_last(lane, d, left); });
    }
  }

  Lane& a_;
  Lane& b_;
  unsigned key_bits_;
  std::span<const std::uint32_t> borders_;
  std::span<const UploadTarget> targets_;
  const Run& run_;
  std::mutex progress_mutex_;
  std::uint64_t done_bytes_ = 0;
};

Lane make_lane(const Source& source, bool is_b, std::uint64_t section_records, std::size_t num_devices) {
  const std::uint64_t record = input_record_bytes(source.header().m);
  Lane lane{.source = source,
            .is_b = is_b,
            .section_records = section_records,
            .chunk_records = std::max<std::uint64_t>(1, plan::kInnerChunkBytes / record)};
  lane.mutex.resize(num_devices);
  lane.num_records.resize(num_devices);
  return lane;
}

/// The arrays end where the records do.
void finish(const Lane& lane, std::size_t d, ParsedMatrix& parsed) {
  const std::uint64_t m = lane.source.header().m;
  take_findings(lane.to[d], lane.source.header().m);  // no index is out of range: the host has looked
  parsed.keys.truncate(lane.num_records[d]);
  parsed.values.truncate(lane.num_records[d] * m * m);
}

}  // namespace

std::vector<InnerPart> upload_divided(const Source& a, const Source& b, std::span<const std::uint32_t> borders,
                                      std::span<PinnedRing* const> rings, std::span<const UploadTarget> targets,
                                      const Run& run) {
  const std::uint32_t nb = a.header().blocks_per_side();
  const unsigned key_bits = std::max(1u, static_cast<unsigned>(std::bit_width(nb - 1)));
  // Declared before the lanes, whose streams wait for their work when they go: nothing is freed that is still written.
  std::vector<InnerPart> parts(targets.size());
  const std::uint64_t section_chunks = plan::upload_section_chunks(a.header());
  Lane lane_a = make_lane(a, false, section_chunks * chunk_records(a.header()), targets.size());
  Lane lane_b = make_lane(b, true, section_chunks * chunk_records(b.header()), targets.size());
  for (std::size_t d = 0; d < targets.size(); ++d) {
    on_device(targets, d, [&] {
      parts[d].parsed = {.a = allocate_parsed(a.header(), targets[d].memory),
                         .b = allocate_parsed(b.header(), targets[d].memory),
                         .key_bits = key_bits};
      add_destination(lane_a.to, a.header(), {.records = lane_a.section_records}, parts[d].parsed.a, targets[d]);
      add_destination(lane_b.to, b.header(), {.records = lane_b.section_records}, parts[d].parsed.b, targets[d]);
    });
  }
  DividedUploader(lane_a, lane_b, key_bits, borders, targets, run).run(rings);
  for (std::size_t d = 0; d < targets.size(); ++d) {
    on_device(targets, d, [&] {
      finish(lane_a, d, parts[d].parsed.a);
      finish(lane_b, d, parts[d].parsed.b);
    });
    parts[d].a_records = lane_a.num_records[d];
    parts[d].b_records = lane_b.num_records[d];
  }
  return parts;
}

}  // namespace spmm::cuda
