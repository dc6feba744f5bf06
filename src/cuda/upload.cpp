// Threads read sections of both matrices into pinned slots, and put copies and parsing on streams of their own.
#include <algorithm>
#include <atomic>
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

/// Records that fit a slot; so many that parts of a section begin at multiples of 8 bytes.
std::uint64_t slot_records(std::uint32_t m) {
  constexpr std::uint64_t kAligned = 4;
  return kernels::kRingSlotBytes / input_record_bytes(m) / kAligned * kAligned;
}

/// A run of records of one matrix that are parsed together.
struct Section {
  bool is_b = false;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

/// Sections of A and B in turn, so that both travel at the same time. Values: most = records of one.
std::vector<Section> cut_sections(const MatrixHeader& a, const MatrixHeader& b, std::uint64_t most) {
  std::vector<Section> sections;
  for (std::uint64_t first = 0; first < std::max(a.num_blocks, b.num_blocks); first += most) {
    for (const bool is_b : {false, true}) {
      const std::uint64_t total = is_b ? b.num_blocks : a.num_blocks;
      if (first < total) sections.push_back({.is_b = is_b, .first = first, .count = std::min(most, total - first)});
    }
  }
  return sections;
}

/// A pinned slot, and the points at which it is free again: one for each device.
struct Slot {
  explicit Slot(const Pipelines& pipelines) : host(pipelines.front()->memory().context().slots()) {
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

/// The way of a thread's sections to one device, one behind the other.
struct Lane {
  Lane(Pipeline& pipeline, std::uint64_t bytes)
      : staging(pipeline.memory(), bytes, "upload"), stream(pipeline.memory().context()) {
    stream.wait_for(pipeline.stream().get());  // memory is there
  }

  DeviceBuffer<std::byte> staging;  // raw records of a section
  Stream stream;                    // last: waits for its work before the staging goes
};

/// A thread that reads. Slots go last, lanes first, whose streams wait.
struct Reader {
  std::deque<Slot> slots{};
  std::uint64_t num_reads = 0;
  std::deque<Lane> lanes{};  // a device each
};

/// The operands on one device, as they are parsed.
struct Parsed {
  Parsed(const MatrixHeader& a, const MatrixHeader& b, Pipeline& pipeline)
      : operands(a), findings(pipeline.memory(), 2, "flags") {
    const auto place = [&](const MatrixHeader& header, SortedRows& to) {
      const std::uint64_t elements = std::uint64_t{header.m} * header.m * header.num_blocks;
      to.keys = {pipeline.memory(), header.num_blocks, "sort keys"};
      to.values = {pipeline.memory(), elements, "input elements"};
    };
    place(a, operands.a);
    place(b, operands.b);
    const std::vector<ParseFindings> nothing(2);
    copy_async(findings.data(), nothing.data(), 2, pipeline.stream());
    pipeline.stream().synchronize();
  }

  SortedOperands operands;
  DeviceBuffer<ParseFindings> findings;  // [2], A's and B's
};

/// Takes over what the parsing has found. Errors: FormatError if a record lies outside the matrix.
void finish(const Source& source, const ParseFindings& found, SortedRows& to) {
  to.max_element = found.max_element;
  to.has_zeros = found.has_zeros != 0;
  if (found.first_bad == kNoRecord) return;
  std::vector<std::byte> raw(input_record_bytes(source.header().m));
  source.read(found.first_bad, 1, raw.data());
  throw_index_out_of_range(source, found.first_bad, read_index(raw.data()));
}

/// Both matrices on their way to all devices.
class Uploader {
 public:
  Uploader(const Source& a, const Source& b, const Pipelines& pipelines, const Run& run)
      : a_(a),
        b_(b),
        m_(a.header().m),
        pipelines_(pipelines),
        run_(run),
        progress_(run, Stage::read,
                  (std::uint64_t{a.header().num_blocks} + b.header().num_blocks) * input_record_bytes(m_)) {
    for_each_device([&](std::size_t d) { parsed_.emplace_back(a.header(), b.header(), *pipelines[d]); });
  }

  std::vector<SortedOperands> run() {
    read_all();
    std::vector<SortedOperands> all;
    for_each_device([&](std::size_t d) {
      const auto found = fetch_all(parsed_[d].findings.data(), 2, pipelines_[d]->stream());
      finish(a_, found[0], parsed_[d].operands.a);
      finish(b_, found[1], parsed_[d].operands.b);
      all.push_back(std::move(parsed_[d].operands));
    });
    return all;
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
    const std::uint64_t num_slots = pipelines_.front()->execution().num_buffers;
    const auto most_readers = static_cast<unsigned>(std::min<std::uint64_t>(num_slots, run_.num_threads));
    const std::uint64_t most =
        std::min<std::uint64_t>(plan::upload_section_slots(a_.header(), b_.header(), most_readers) * slot_records(m_),
                                std::max(a_.header().num_blocks, b_.header().num_blocks));
    const std::vector<Section> sections = cut_sections(a_.header(), b_.header(), most);
    if (sections.empty()) return;
    const auto num_readers = static_cast<unsigned>(std::min<std::uint64_t>(most_readers, sections.size()));
    for (unsigned x = 0; x < num_readers; ++x) {  // to pin memory while records are copied takes milliseconds
      Reader& reader = readers_.emplace_back();
      const std::uint64_t own_slots = (num_slots - x - 1) / num_readers + 1;
      for (std::uint64_t at = 0; at < std::min(most, own_slots * slot_records(m_)); at += slot_records(m_)) {
        reader.slots.emplace_back(pipelines_);
      }
      for_each_device([&](std::size_t d) { reader.lanes.emplace_back(*pipelines_[d], most * input_record_bytes(m_)); });
    }
    num_left_ = sections.size();
    std::atomic<std::uint64_t> next{0};
    run_.run_workers(num_readers, [&](unsigned number) {
      Reader& reader = readers_[number];
      try {
        const DeviceGuard guard(pipelines_.front()->memory().context().device());
        while (true) {
          const std::uint64_t x = next.fetch_add(1);
          if (x >= sections.size()) break;
          send(sections[x], reader);
          if (--num_left_ == 0) queue_sorts();
        }
        for (const Slot& slot : reader.slots) slot.synchronize();
      } catch (...) {
        next = sections.size();
        throw;
      }
    });
  }

  /// Reads a section slot by slot, and puts copies and parsing on the streams.
  void send(const Section& section, Reader& reader) {
    const std::uint64_t record_bytes = input_record_bytes(m_);
    const Source& source = section.is_b ? b_ : a_;
    for (std::uint64_t at = 0; at < section.count; at += slot_records(m_)) {
      run_.check_cancelled();
      const std::uint64_t count = std::min(slot_records(m_), section.count - at);
      const std::uint64_t bytes = count * record_bytes;
      const Slot& slot = reader.slots[reader.num_reads++ % reader.slots.size()];
      slot.synchronize();
      {
        const auto timing = run_.clock.scope(Stage::read, {.bytes = bytes});
        source.read(section.first + at, count, slot.host.data());
      }
      run_.clock.add_bytes(Stage::read, bytes);
      run_.clock.add_bytes(Stage::h2d, bytes * pipelines_.size());
      progress_.add(bytes);
      // One thread at a time: else calls of others came between a copy and its parsing, and the device waited.
      const std::lock_guard lock(streams_mutex_);
      for_each_device([&](std::size_t d) {
        const Lane& lane = reader.lanes[d];
        std::byte* const to = lane.staging.data() + at * record_bytes;
        pipelines_[d]->events().timed(Stage::h2d, lane.stream,
                                      [&] { copy_async(to, slot.host.data(), bytes, lane.stream); }, {.bytes = bytes});
        slot.free[d].record(lane.stream);
        if (at + count == section.count) parse(section, lane, parsed_[d], pipelines_[d]->events());
      });
    }
  }

  void parse(const Section& section, const Lane& lane, Parsed& parsed, StageEvents& events) const {
    const SortedRows& to = parsed.operands.matrix(section.is_b);
    ParseFindings* const findings = parsed.findings.data() + (section.is_b ? 1 : 0);
    events.timed(Stage::build, lane.stream, [&] {
      kernels::launch_parse_records({.data = lane.staging.data(),
                                     .first = section.first,
                                     .count = section.count,
                                     .m = m_,
                                     .nb = parsed.operands.nb,
                                     .key_bits = parsed.operands.key_bits,
                                     .transpose = section.is_b},
                                    {.keys = to.keys.data(),
                                     .values = to.values.data(),
                                     .first_bad = &findings->first_bad,
                                     .max_element = &findings->max_element,
                                     .has_zeros = &findings->has_zeros},
                                    lane.stream.get());
    });
  }

  /// Once everything is on the streams.
  void queue_sorts() {
    for_each_device([&](std::size_t d) {
      const Stream& stream = pipelines_[d]->stream();
      for (const Reader& reader : readers_) stream.wait_for(reader.lanes[d].stream.get());
      pipelines_[d]->queue_sort(parsed_[d].operands, a_.header(), b_.header());
    });
  }

  const Source& a_;
  const Source& b_;
  std::uint32_t m_;
  const Pipelines& pipelines_;
  const Run& run_;
  std::deque<Parsed> parsed_;  // a device each; in front of the readers, whose work writes it
  std::deque<Reader> readers_;
  std::mutex streams_mutex_;
  std::atomic<std::uint64_t> num_left_{0};  // sections that have not been put on the streams
  Progress progress_;
};

}  // namespace

std::vector<SortedOperands> upload(const Source& a, const Source& b, const Pipelines& pipelines, const Run& run) {
  return Uploader(a, b, pipelines, run).run();
}

}  // namespace spmm::cuda
