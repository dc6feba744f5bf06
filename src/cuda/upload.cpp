// Threads read chunks of both matrices into pinned slots, and put copies and parsing on the streams.
#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <vector>

#include "base/records/errors.hpp"
#include "base/records/head.hpp"
#include "cuda/pipeline.hpp"
#include "kernels/blocks/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {
namespace {

constexpr unsigned long long kNoRecord = std::numeric_limits<unsigned long long>::max();

/// What parsing tells of a matrix; on the device.
struct ParseFindings {
  unsigned long long first_bad = kNoRecord;
  std::uint32_t max_element = 0;
  std::uint32_t has_zeros = 0;
};

/// Records that fit a slot; so many that sections of them begin at multiples of 8 bytes.
std::uint64_t chunk_records(const MatrixHeader& header) {
  constexpr std::uint64_t kAligned = 4;
  return kernels::kRingSlotBytes / input_record_bytes(header.m) / kAligned * kAligned;
}

/// Records of either matrix that are parsed together. Values: a = A's header.
std::uint64_t section_records(const MatrixHeader& a) {
  return plan::upload_section_chunks(a) * chunk_records(a);
}

/// A run of records of one matrix that travels in one slot.
struct Chunk {
  bool is_b = false;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// A pinned slot, and the points at which it is free again: one for each device.
struct Slot {
  explicit Slot(const Pipelines& pipelines) : host(pipelines.front()->memory().context()) {
    for (const auto& pipeline : pipelines) {
      const DeviceGuard guard(pipeline->memory().context().device());
      free.emplace_back();
    }
  }

  /// Waits until no copy reads it.
  void synchronize() const {
    for (const Event& event : free) event.synchronize();
  }

  PinnedSlot host;
  std::vector<Event> free{};
};

/// A matrix on its way to one device.
struct Destination {
  Destination(const MatrixHeader& header, std::uint64_t section_records, SortedRows& to, Pipeline& pipeline)
      : parsed(to),
        events(pipeline.events()),
        staging(pipeline.memory(),
                std::min<std::uint64_t>(2 * section_records, header.num_blocks) * input_record_bytes(header.m),
                "upload"),
        findings(pipeline.memory(), 1, "flags"),
        stream(pipeline.memory().context()) {
    const ParseFindings nothing;
    stream.wait_for(pipeline.stream().get());  // memory is there
    copy_async(findings.data(), &nothing, 1, stream);
    stream.synchronize();
  }

  SortedRows& parsed;
  StageEvents& events;
  DeviceBuffer<std::byte> staging;       // raw records of two sections, which take turns
  DeviceBuffer<ParseFindings> findings;  // [1]
  Stream stream;                         // last: waits for the parsing before anything else goes
};

/// One matrix while it travels, in sections of records that are parsed together.
struct MatrixUpload {
  const Source& source;
  bool is_b;
  std::uint64_t section_records;                // the last section may have less
  std::array<std::uint64_t, 2> num_records{};   // of the section that is arriving in each staging, on all devices alike
  std::array<std::uint64_t, 2> num_sections{};  // of each staging that are on the streams whole, parsing included
  std::deque<Destination> to{};                 // a device each
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

/// Takes over what the parsing has found. Waits for it. Errors: FormatError if a record lies outside the matrix.
void finish(const Source& source, const Destination& to) {
  const std::uint32_t m = source.header().m;
  const ParseFindings findings = fetch(to.findings.data(), to.stream);
  to.parsed.max_element = findings.max_element;
  to.parsed.has_zeros = findings.has_zeros != 0;
  if (findings.first_bad == kNoRecord) return;
  std::vector<std::byte> raw(input_record_bytes(m));
  source.read(findings.first_bad, 1, raw.data());
  throw_index_out_of_range(source, findings.first_bad, read_index(raw.data()));
}

/// The readers: each owns some slots and takes chunk after chunk.
class Uploader {
 public:
  Uploader(const Source& a, const Source& b, const Pipelines& pipelines, const Run& run)
      : a_{.source = a, .is_b = false, .section_records = section_records(a.header())},
        b_{.source = b, .is_b = true, .section_records = section_records(a.header())},
        pipelines_(pipelines),
        run_(run),
        progress_(run, Stage::read,
                  (std::uint64_t{a.header().num_blocks} + b.header().num_blocks) * input_record_bytes(a.header().m)) {
    for (std::size_t d = 0; d < pipelines.size(); ++d) parsed_.emplace_back(a.header());
    const auto parsed_place = [&](const MatrixHeader& header, DeviceMemory& memory) {
      const std::uint64_t elements = std::uint64_t{header.m} * header.m * header.num_blocks;
      SortedRows place;
      place.keys = {memory, header.num_blocks, "sort keys"};
      place.values = {memory, elements, "input elements"};
      return place;
    };
    for_each_device([&](std::size_t d) {
      DeviceMemory& memory = pipelines[d]->memory();
      parsed_[d].a = parsed_place(a.header(), memory);
      parsed_[d].b = parsed_place(b.header(), memory);
      a_.to.emplace_back(a.header(), a_.section_records, parsed_[d].a, *pipelines[d]);
      b_.to.emplace_back(b.header(), b_.section_records, parsed_[d].b, *pipelines[d]);
    });
  }

  std::vector<SortedOperands> run() {
    read_all();
    for_each_device([&](std::size_t d) {
      finish(a_.source, a_.to[d]);
      finish(b_.source, b_.to[d]);
    });
    return std::move(parsed_);
  }

 private:
  template <class Body>
  void for_each_device(const Body& body) {
    for (std::size_t d = 0; d < pipelines_.size(); ++d) {
      on_device(pipelines_[d]->memory().context(), pipelines_.size() > 1, [&] { body(d); });
    }
  }

  /// Copies from slots may still be on their way if this throws.
  void read_all() {
    const std::vector<Chunk> chunks = cut_chunks(a_.source.header(), b_.source.header());
    const auto num_slots = std::min<std::uint64_t>(pipelines_.front()->execution().num_buffers, chunks.size());
    const auto num_readers = static_cast<unsigned>(std::min<std::uint64_t>(num_slots, run_.num_threads));
    num_left_ = chunks.size();
    if (num_readers == 0) return;
    std::atomic<std::uint64_t> next{0};
    slots_.resize(num_readers);
    run_.run_workers(num_readers, [&](unsigned reader) {
      const std::uint64_t own_slots = (num_slots - reader - 1) / num_readers + 1;
      std::deque<Slot>& own = slots_[reader];
      try {
        const DeviceGuard guard(pipelines_.front()->memory().context().device());
        for (std::uint64_t turn = 0;; ++turn) {
          const std::uint64_t x = next.fetch_add(1);
          if (x >= chunks.size()) break;
          send(chunks[x], turn < own_slots ? own.emplace_back(pipelines_) : own[turn % own_slots]);
        }
        prepare();  // while others still read
        for (const Slot& slot : own) slot.synchronize();
      } catch (...) {
        next = chunks.size();
        give_up();
        throw;
      }
    });
  }

  void send(const Chunk& chunk, Slot& slot) {
    run_.check_cancelled();
    MatrixUpload& matrix = chunk.is_b ? b_ : a_;
    const std::uint64_t bytes = chunk.count * input_record_bytes(matrix.source.header().m);
    slot.synchronize();
    {
      const auto timing = run_.clock.scope(Stage::read, {.bytes = bytes});
      matrix.source.read(chunk.first, chunk.count, slot.host.data());
    }
    run_.clock.add_bytes(Stage::read, bytes);
    run_.clock.add_bytes(Stage::h2d, bytes * pipelines_.size());
    if (!put_on_streams(chunk, slot, matrix)) return;
    if (--num_left_ == 0) queue();
    progress_.add(bytes);
  }

  /// Once, by a thread that has nothing left to read.
  void prepare() {
    std::call_once(prepared_, [&] {
      for_each_device(
          [&](std::size_t d) { pipelines_[d]->prepare_sort(parsed_[d], a_.source.header(), b_.source.header()); });
    });
  }

  /// Once everything is on the streams.
  void queue() {
    prepare();
    for_each_device([&](std::size_t d) {
      const Stream& stream = pipelines_[d]->stream();
      for (const MatrixUpload* matrix : {&a_, &b_}) stream.wait_for(matrix->to[d].stream.get());
      pipelines_[d]->queue_sort(parsed_[d]);
    });
  }

  /// Copies a chunk to its place in its section on every device, and parses the section once it is whole. False once
  /// another thread has failed: then there is nothing to sort.
  bool put_on_streams(const Chunk& chunk, Slot& slot, MatrixUpload& matrix) {
    const MatrixHeader& header = matrix.source.header();
    const std::uint64_t number = chunk.first / matrix.section_records;
    const std::uint64_t first = number * matrix.section_records;
    const std::uint64_t num_records = std::min<std::uint64_t>(matrix.section_records, header.num_blocks - first);
    const std::size_t turn = number % 2;
    std::unique_lock lock(stream_mutex_);
    section_done_.wait(lock, [&] { return matrix.num_sections.at(turn) == number / 2 || failed_; });
    if (failed_) return false;
    matrix.num_records.at(turn) += chunk.count;
    const bool is_whole = matrix.num_records.at(turn) == num_records;
    const std::uint64_t bytes = chunk.count * input_record_bytes(header.m);
    const std::uint64_t begin = turn * matrix.section_records * input_record_bytes(header.m);  // of the section
    const std::uint64_t place = begin + (chunk.first - first) * input_record_bytes(header.m);
    for_each_device([&](std::size_t d) {
      Destination& to = matrix.to[d];
      std::byte* const raw = to.staging.data();
      to.events.timed(Stage::h2d, to.stream, [&] { copy_async(raw + place, slot.host.data(), bytes, to.stream); },
                      {.bytes = bytes});
      slot.free[d].record(to.stream);
      if (is_whole) parse(raw + begin, first, num_records, matrix, to);
    });
    if (!is_whole) return true;
    matrix.num_records.at(turn) = 0;
    ++matrix.num_sections.at(turn);
    section_done_.notify_all();
    return true;
  }

  void parse(const std::byte* raw, std::uint64_t first, std::uint64_t count, const MatrixUpload& matrix,
             Destination& to) const {
    const MatrixHeader& header = matrix.source.header();
    ParseFindings* const findings = to.findings.data();
    to.events.timed(Stage::build, to.stream, [&] {
      kernels::launch_parse_records({.data = raw,
                                     .first = first,
                                     .count = count,
                                     .m = header.m,
                                     .nb = header.blocks_per_side(),
                                     .key_bits = key_bits_of(header.blocks_per_side()),
                                     .transpose = matrix.is_b},
                                    {.keys = to.parsed.keys.data(),
                                     .values = to.parsed.values.data(),
                                     .first_bad = &findings->first_bad,
                                     .max_element = &findings->max_element,
                                     .has_zeros = &findings->has_zeros},
                                    to.stream.get());
    });
  }

  /// Wakes threads that wait for sections which will never be whole.
  void give_up() {
    const std::lock_guard lock(stream_mutex_);
    failed_ = true;
    section_done_.notify_all();
  }

  // In front of the uploads, whose streams wait for their work when they go: nothing is freed that is still written,
  // and no slot lent to another product that is still read.
  std::vector<SortedOperands> parsed_;
  std::vector<std::deque<Slot>> slots_;  // of each reader
  MatrixUpload a_;
  MatrixUpload b_;
  const Pipelines& pipelines_;
  const Run& run_;
  std::once_flag prepared_;
  std::atomic<std::uint64_t> num_left_{0};  // chunks that have not been put on the streams
  std::mutex stream_mutex_;
  std::condition_variable section_done_;
  bool failed_ = false;
  Progress progress_;
};

}  // namespace

std::vector<SortedOperands> upload(const Source& a, const Source& b, const Pipelines& pipelines, const Run& run) {
  return Uploader(a, b, pipelines, run).run();
}

}  // namespace spmm::cuda
