#include "cuda/upload.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "base/record_errors.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

constexpr unsigned long long kNoRecord = std::numeric_limits<unsigned long long>::max();

/// Chunks that are parsed together: one launch per 4 MB would cost more than parsing them.
constexpr std::uint64_t kSectionChunks = 4;

/// A run of records of one matrix that travels in one slot.
struct Chunk {
  bool is_b = false;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// A slot of the ring, and the point at which it is free again.
struct Slot {
  std::byte* host = nullptr;
  Event free{};
};

/// The slots of one reader, taken one by one; they go back to the ring in the end.
class OwnSlots {
 public:
  OwnSlots(PinnedRing& ring, std::uint64_t max_slots) : ring_(ring) { slots_.reserve(max_slots); }
  ~OwnSlots() {
    for (const Slot& slot : slots_) ring_.put(slot.host);
  }
  OwnSlots(const OwnSlots&) = delete;
  OwnSlots& operator=(const OwnSlots&) = delete;

  /// Slot x, where x is at most one beyond those asked for before.
  Slot& slot(std::uint64_t x) {
    if (x == slots_.size()) {
      Event free;
      slots_.push_back({.host = ring_.take(), .free = std::move(free)});
    }
    return slots_[x];
  }

  /// Waits until no copy reads them.
  void synchronize() const {
    for (const Slot& slot : slots_) slot.free.synchronize();
  }

 private:
  PinnedRing& ring_;
  std::vector<Slot> slots_;
};

/// Device memory for the raw records of one section. Sections take turns in two of them.
struct Staging {
  DeviceBuffer<std::byte> bytes;
  std::uint64_t num_records = 0;   // of the section that is arriving
  std::uint64_t num_sections = 0;  // that have been put on the stream whole, parsing included
};

/// One matrix while it travels.
struct Lane {
  const Source& source;
  ParsedMatrix& parsed;
  std::uint64_t section_records;  // records of a section; the last one may have less
  std::array<Staging, 2> staging;
  DeviceBuffer<unsigned long long> first_bad;  // [1]
  DeviceBuffer<std::uint32_t> max_element;     // [1]
  Stream stream;                               // last: waits for the parsing before anything else goes
};

std::uint64_t chunk_records(const MatrixHeader& header) {
  return std::max<std::uint64_t>(1, kernels::kRingSlotBytes / input_record_bytes(header.m));
}

/// Chunks of A and B in turn, so that both travel at the same time.
std::vector<Chunk> cut_chunks(const MatrixHeader& a, const MatrixHeader& b) {
  const std::uint64_t records = chunk_records(a);
  std::vector<Chunk> chunks;
  for (std::uint64_t first = 0; first < std::max(a.num_blocks, b.num_blocks); first += records) {
    for (const bool is_b : {false, true}) {
      const std::uint64_t total = is_b ? b.num_blocks : a.num_blocks;
      if (first < total) {
        chunks.push_back({.is_b = is_b, .first = first, .count = std::min(records, total - first)});
      }
    }
  }
  return chunks;
}

ParsedMatrix allocate_parsed(const MatrixHeader& header, DeviceMemory& memory) {
  return {.keys = {memory, header.num_blocks, "sort keys"},
          .values = {memory, std::uint64_t{header.m} * header.m * header.num_blocks, "input elements"},
          .max_element = 0};
}

Lane make_lane(const Source& source, ParsedMatrix& parsed, DeviceMemory& memory) {
  const MatrixHeader& header = source.header();
  const std::uint64_t records = kSectionChunks * chunk_records(header);
  const std::uint64_t bytes = std::min<std::uint64_t>(records, header.num_blocks) * input_record_bytes(header.m);
  const bool is_long = header.num_blocks > records;
  return {.source = source,
          .parsed = parsed,
          .section_records = records,
          .staging = {{{.bytes = {memory, bytes, "upload"}}, {.bytes = {memory, is_long ? bytes : 0, "upload"}}}},
          .first_bad = {memory, 1, "flag"},
          .max_element = {memory, 1, "flag"},
          .stream = Stream(memory.context())};
}

/// Errors: FormatError if a record of the lane lies outside the matrix.
void check_indices(const Lane& lane) {
  const unsigned long long bad = fetch(lane.first_bad.data(), lane.stream);
  if (bad == kNoRecord) return;
  const MatrixHeader& header = lane.source.header();
  const std::uint64_t bytes = input_record_bytes(header.m);
  std::vector<std::byte> raw(bytes);
  lane.source.read(bad, 1, raw.data());
  BlockIndex found;
  std::memcpy(&found.i, raw.data(), sizeof found.i);
  std::memcpy(&found.j, raw.data() + sizeof found.i, sizeof found.j);
  throw_index_out_of_range(lane.source.name(), bad, bytes, found, header.blocks_per_side());
}

/// The readers: each owns some slots and takes chunk after chunk.
class Uploader {
 public:
  Uploader(Lane& a, Lane& b, unsigned key_bits, StageEvents& events, const Run& run)
      : a_(a), b_(b), key_bits_(key_bits), events_(events), run_(run) {}

  /// All slots of the ring are back afterwards; copies from them may still be on their way if this throws.
  void run(PinnedRing& ring, int device) {
    const std::vector<Chunk> chunks = cut_chunks(a_.source.header(), b_.source.header());
    const auto num_slots = std::min<std::uint64_t>(ring.max_slots(), chunks.size());
    const auto num_readers = static_cast<unsigned>(std::min<std::uint64_t>(num_slots, run_.num_threads));
    const std::uint64_t bytes = input_record_bytes(a_.source.header().m);
    for (const Chunk& c : chunks) total_bytes_ += c.count * bytes;
    if (num_readers == 0) return;
    std::atomic<std::uint64_t> next{0};
    run_.run_workers(num_readers, [&](unsigned reader) {
      const std::uint64_t own_slots = (num_slots - reader - 1) / num_readers + 1;
      OwnSlots own(ring, own_slots);
      try {
        const DeviceGuard guard(device);
        for (std::uint64_t turn = 0;; ++turn) {
          const std::uint64_t x = next.fetch_add(1);
          if (x >= chunks.size()) break;
          send(chunks[x], own.slot(turn % own_slots));
        }
        own.synchronize();
      } catch (...) {
        next = chunks.size();
        give_up();
        throw;
      }
    });
  }

 private:
  void send(const Chunk& chunk, Slot& slot) {
    run_.check_cancelled();
    Lane& lane = chunk.is_b ? b_ : a_;
    const MatrixHeader& header = lane.source.header();
    const std::uint64_t bytes = chunk.count * input_record_bytes(header.m);
    slot.free.synchronize();
    {
      const auto timing = run_.clock.scope(Stage::read);
      lane.source.read(chunk.first, chunk.count, slot.host);
    }
    run_.clock.add_bytes(Stage::read, bytes);
    run_.clock.add_bytes(Stage::h2d, bytes);
    put_on_stream(chunk, slot, lane);
    const std::lock_guard lock(progress_mutex_);
    done_bytes_ += bytes;
    if (run_.on_progress) run_.on_progress(Stage::read, done_bytes_, total_bytes_);
  }

  /// Copies a chunk to its place in its section, and parses the section once it is whole.
  void put_on_stream(const Chunk& chunk, Slot& slot, Lane& lane) {
    const MatrixHeader& header = lane.source.header();
    const std::uint64_t record_bytes = input_record_bytes(header.m);
    const std::uint64_t section = chunk.first / lane.section_records;
    const std::uint64_t first = section * lane.section_records;
    const std::uint64_t num_records = std::min(lane.section_records, header.num_blocks - first);
    Staging& staging = lane.staging[section % 2];
    std::unique_lock lock(stream_mutex_);
    section_done_.wait(lock, [&] { return staging.num_sections == section / 2 || failed_; });
    if (failed_) return;
    events_.timed(Stage::h2d, lane.stream, [&] {
      copy_async(staging.bytes.data() + (chunk.first - first) * record_bytes, slot.host, chunk.count * record_bytes,
                 lane.stream);
    });
    slot.free.record(lane.stream);
    staging.num_records += chunk.count;
    if (staging.num_records < num_records) return;
    events_.timed(Stage::build, lane.stream, [&] {
      kernels::launch_parse_records({.data = staging.bytes.data(),
                                     .first = first,
                                     .count = num_records,
                                     .m = header.m,
                                     .nb = header.blocks_per_side(),
                                     .key_bits = key_bits_,
                                     .transpose = &lane == &b_},
                                    {.keys = lane.parsed.keys.data(),
                                     .values = lane.parsed.values.data(),
                                     .first_bad = lane.first_bad.data(),
                                     .max_element = lane.max_element.data()},
                                    lane.stream.get());
    });
    staging.num_records = 0;
    ++staging.num_sections;
    section_done_.notify_all();
  }

  /// Wakes threads that wait for sections which will never be whole.
  void give_up() {
    const std::lock_guard lock(stream_mutex_);
    failed_ = true;
    section_done_.notify_all();
  }

  Lane& a_;
  Lane& b_;
  unsigned key_bits_;
  StageEvents& events_;
  const Run& run_;
  std::mutex stream_mutex_;
  std::condition_variable section_done_;
  bool failed_ = false;
  std::mutex progress_mutex_;
  std::uint64_t done_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace

ParsedPair upload(const Source& a, const Source& b, PinnedRing& ring, DeviceMemory& memory, StageEvents& events,
                  const Run& run) {
  const std::uint32_t nb = a.header().blocks_per_side();
  // Declared before the lanes, whose streams wait for their work when they go: nothing is freed that is still written.
  ParsedPair parsed{.a = allocate_parsed(a.header(), memory),
                    .b = allocate_parsed(b.header(), memory),
                    .key_bits = std::max(1u, static_cast<unsigned>(std::bit_width(nb - 1)))};
  Lane lane_a = make_lane(a, parsed.a, memory);
  Lane lane_b = make_lane(b, parsed.b, memory);
  const Event allocated;
  allocated.record(memory.stream());
  for (Lane* lane : {&lane_a, &lane_b}) {
    constexpr std::uint32_t kNothing = 0;
    lane->stream.wait_for(allocated);
    copy_async(lane->first_bad.data(), &kNoRecord, 1, lane->stream);
    copy_async(lane->max_element.data(), &kNothing, 1, lane->stream);
    lane->stream.synchronize();
  }
  Uploader(lane_a, lane_b, parsed.key_bits, events, run).run(ring, memory.context().device());
  for (Lane* lane : {&lane_a, &lane_b}) {
    check_indices(*lane);
    lane->parsed.max_element = fetch(lane->max_element.data(), lane->stream);
  }
  return parsed;
}

}  // namespace spmm::cuda
