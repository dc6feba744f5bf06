// Threads read chunks of both matrices into pinned slots, and put copies and parsing on the streams.
#include "cuda/operands/upload.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

#include "base/records/errors.hpp"
#include "cuda/operands/destination.hpp"
#include "kernels/tuning.hpp"
#include "plan/memory/device_bytes.hpp"

namespace spmm::cuda {
namespace {

/// A run of records of one matrix that travels in one slot.
struct Chunk {
  bool is_b = false;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// A slot of the ring, and the points at which it is free again: one for each device.
struct Slot {
  std::byte* host = nullptr;
  std::vector<Event> free{};

  /// Waits until no copy reads it.
  void synchronize() const {
    for (const Event& event : free) event.synchronize();
  }
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

  /// Slot x. Values: x is at most one beyond those asked for before.
  Slot& slot(std::uint64_t x, std::span<const UploadTarget> targets) {
    if (x == slots_.size()) {
      std::vector<Event> free;
      for (const UploadTarget& target : targets) {
        const DeviceGuard guard(target.memory.context().device());
        free.emplace_back();
      }
      slots_.push_back({.host = ring_.take(), .free = std::move(free)});
    }
    return slots_[x];
  }

  void synchronize() const {
    for (const Slot& slot : slots_) slot.synchronize();
  }

 private:
  PinnedRing& ring_;
  std::vector<Slot> slots_;
};

/// What has become of the sections that take turns in one staging, on all devices alike.
struct StagingUse {
  std::uint64_t num_records = 0;   // of the section that is arriving
  std::uint64_t num_sections = 0;  // that have been put on the streams whole, parsing included
};

/// One matrix while it travels.
struct MatrixUpload {
  const Source& source;
  std::uint64_t section_records;  // records of a section; the last one may have less
  std::array<StagingUse, 2> stagings{};
  std::deque<Destination> to{};  // a device each
};

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

/// Adds a device.
void add_destination(MatrixUpload& matrix, ParsedMatrix& parsed, const UploadTarget& target) {
  const bool is_long = matrix.source.header().num_blocks > matrix.section_records;
  add_destination(matrix.to, matrix.source.header(), {.records = matrix.section_records, .take_turns = is_long}, parsed,
                  target);
}

/// Takes over what the parsing has found. Errors: FormatError if a record lies outside the matrix.
void finish(const MatrixUpload& matrix, const Destination& to) {
  const unsigned long long bad = take_findings(to, matrix.source.header().m).first_bad;
  if (bad == kNoRecord) return;
  std::vector<std::byte> raw(input_record_bytes(matrix.source.header().m));
  matrix.source.read(bad, 1, raw.data());
  BlockIndex found;
  std::memcpy(&found.i, raw.data(), sizeof found.i);
  std::memcpy(&found.j, raw.data() + sizeof found.i, sizeof found.j);
  throw_index_out_of_range(matrix.source, bad, found);
}

/// The readers: each owns some slots and takes chunk after chunk.
class Uploader {
 public:
  /// Both or neither.
  struct WorkAhead {
    std::function<void()> prepare;  // called once, before queue, by a thread that has nothing left to read
    std::function<void()> queue;    // called once everything is on the streams
  };

  Uploader(MatrixUpload& a, MatrixUpload& b, unsigned key_bits, std::span<const UploadTarget> targets, const Run& run,
           WorkAhead ahead)
      : a_(a), b_(b), key_bits_(key_bits), targets_(targets), run_(run), ahead_(std::move(ahead)) {}

  /// All slots of the ring are back afterwards; copies from them may still be on their way if this throws.
  void run(PinnedRing& ring) {
    const std::vector<Chunk> chunks = cut_chunks(a_.source.header(), b_.source.header());
    const auto num_slots = std::min<std::uint64_t>(ring.max_slots(), chunks.size());
    const auto num_readers = static_cast<unsigned>(std::min<std::uint64_t>(num_slots, run_.num_threads));
    const std::uint64_t bytes = input_record_bytes(a_.source.header().m);
    for (const Chunk& c : chunks) total_bytes_ += c.count * bytes;
    num_left_ = chunks.size();
    if (num_readers == 0) return;
    std::atomic<std::uint64_t> next{0};
    run_.run_workers(num_readers, [&](unsigned reader) {
      const std::uint64_t own_slots = (num_slots - reader - 1) / num_readers + 1;
      OwnSlots own(ring, own_slots);
      try {
        const DeviceGuard guard(targets_.front().memory.context().device());
        for (std::uint64_t turn = 0;; ++turn) {
          const std::uint64_t x = next.fetch_add(1);
          if (x >= chunks.size()) break;
          send(chunks[x], own.slot(turn % own_slots, targets_));
        }
        prepare();  // while others still read
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
    MatrixUpload& matrix = chunk.is_b ? b_ : a_;
    const MatrixHeader& header = matrix.source.header();
    const std::uint64_t bytes = chunk.count * input_record_bytes(header.m);
    slot.synchronize();
    {
      const auto timing = run_.clock.scope(Stage::read, {.bytes = bytes});
      matrix.source.read(chunk.first, chunk.count, slot.host);
    }
    run_.clock.add_bytes(Stage::read, bytes);
    run_.clock.add_bytes(Stage::h2d, bytes * targets_.size());
    put_on_streams(chunk, slot, matrix);
    if (--num_left_ == 0 && ahead_.queue) {
      prepare();
      ahead_.queue();
    }
    const std::lock_guard lock(progress_mutex_);
    done_bytes_ += bytes;
    if (run_.on_progress) run_.on_progress(Stage::read, done_bytes_, total_bytes_);
  }

  void prepare() {
    if (ahead_.prepare) std::call_once(prepared_, ahead_.prepare);
  }

  /// Copies a chunk to its place in its section on every device, and parses the section once it is whole.
  void put_on_streams(const Chunk& chunk, Slot& slot, MatrixUpload& matrix) {
    const MatrixHeader& header = matrix.source.header();
    const std::uint64_t number = chunk.first / matrix.section_records;
    const std::uint64_t first = number * matrix.section_records;
    const Section section{.turn = number % 2,
                          .first = first,
                          .num_records = std::min<std::uint64_t>(matrix.section_records, header.num_blocks - first)};
    StagingUse& staging = matrix.stagings.at(section.turn);
    std::unique_lock lock(stream_mutex_);
    section_done_.wait(lock, [&] { return staging.num_sections == number / 2 || failed_; });
    if (failed_) return;
    staging.num_records += chunk.count;
    const bool is_whole = staging.num_records == section.num_records;
    const std::uint64_t bytes = chunk.count * input_record_bytes(header.m);
    const std::uint64_t place = (chunk.first - first) * input_record_bytes(header.m);
    for (std::size_t d = 0; d < targets_.size(); ++d) {
      on_device(targets_, d, [&] {
        Destination& to = matrix.to[d];
        to.events.timed(Stage::h2d, to.stream,
                        [&] { copy_async(to.staging.at(section.turn).data() + place, slot.host, bytes, to.stream); },
                        {.bytes = bytes});
        slot.free[d].record(to.stream);
        if (is_whole) parse(section, header, {.key_bits = key_bits_, .transpose = &matrix == &b_}, to);
      });
    }
    if (!is_whole) return;
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

  MatrixUpload& a_;
  MatrixUpload& b_;
  unsigned key_bits_;
  std::span<const UploadTarget> targets_;
  const Run& run_;
  WorkAhead ahead_;
  std::once_flag prepared_;
  std::atomic<std::uint64_t> num_left_{0};  // chunks that have not been put on the streams
  std::mutex stream_mutex_;
  std::condition_variable section_done_;
  bool failed_ = false;
  std::mutex progress_mutex_;
  std::uint64_t done_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

}  // namespace

std::vector<ParsedOperands> upload(const Source& a, const Source& b, PinnedRing& ring,
                                   std::span<const UploadTarget> targets, const Run& run, const WorkAhead& ahead) {
  const std::uint32_t nb = a.header().blocks_per_side();
  const unsigned key_bits = key_bits_of(nb);
  // Declared before the uploads, whose streams wait for their work when they go: nothing is freed that is still
  // written.
  std::vector<ParsedOperands> parsed(targets.size());
  const std::uint64_t section_chunks = plan::upload_section_chunks(a.header());
  MatrixUpload upload_a{.source = a, .section_records = section_chunks * chunk_records(a.header())};
  MatrixUpload upload_b{.source = b, .section_records = section_chunks * chunk_records(b.header())};
  for (std::size_t d = 0; d < targets.size(); ++d) {
    on_device(targets, d, [&] {
      parsed[d] = {.a = allocate_parsed(a.header(), targets[d].memory),
                   .b = allocate_parsed(b.header(), targets[d].memory),
                   .key_bits = key_bits};
      add_destination(upload_a, parsed[d].a, targets[d]);
      add_destination(upload_b, parsed[d].b, targets[d]);
    });
  }
  const auto queue = [&] {
    const Stream& stream = targets.front().memory.stream();
    for (const MatrixUpload* matrix : {&upload_a, &upload_b}) {
      const Event parsed_there;
      parsed_there.record(matrix->to.front().stream);
      stream.wait_for(parsed_there);
    }
    ahead.queue(parsed.front());
  };
  const auto prepare = [&] { ahead.prepare(parsed.front()); };
  Uploader::WorkAhead work;
  if (ahead.queue && targets.size() == 1) work = {.prepare = prepare, .queue = queue};
  Uploader(upload_a, upload_b, key_bits, targets, run, std::move(work)).run(ring);
  for (std::size_t d = 0; d < targets.size(); ++d) {
    on_device(targets, d, [&] {
      finish(upload_a, upload_a.to[d]);
      finish(upload_b, upload_b.to[d]);
    });
  }
  return parsed;
}

}  // namespace spmm::cuda
