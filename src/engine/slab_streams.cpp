#include "engine/slab_streams.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <semaphore>
#include <utility>

namespace spmm::bands {
namespace {

constexpr std::uint64_t kOutboxBytes = 1u << 20;  // of one buffer on its way to the sink, or one row
constexpr unsigned kOutboxBuffers = 4;

/// Reads kept records one by one and frees what has been read.
class KeptRecords {
 public:
  KeptRecords(KeepingSink& sink, std::uint64_t bytes) : pieces_(sink.pieces()), bytes_(bytes) { skip_finished(); }
  [[nodiscard]] bool is_empty() const { return pieces_.empty(); }
  [[nodiscard]] const std::byte* front() const { return pieces_.front().data() + at_; }
  [[nodiscard]] std::uint32_t row() const { return index_of(front()).i; }
  void pop() {
    at_ += bytes_;
    skip_finished();
  }

 private:
  void skip_finished() {
    while (!pieces_.empty() && at_ >= pieces_.front().size()) {
      pieces_.pop_front();
      at_ = 0;
    }
  }
  std::deque<MappedBytes>& pieces_;
  std::uint64_t bytes_;
  std::uint64_t at_ = 0;
};

/// Buffers on their way to the sink; waits for all of them before it goes.
class Outbox {
 public:
  Outbox(Sink& sink, const Run& run) : sink_(sink), run_(run) {}
  ~Outbox() {
    for (unsigned x = 0; x < kOutboxBuffers; ++x) free_.acquire();
  }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void send(std::vector<std::byte> records) {
    if (records.empty()) return;
    free_.acquire();
    const auto kept = std::make_shared<std::vector<std::byte>>(std::move(records));
    const auto timing = run_.clock.scope(Stage::write);
    sink_.append(*kept, [this, kept] { free_.release(); });  // called once, also after a failure
  }

 private:
  Sink& sink_;
  const Run& run_;
  std::counting_semaphore<kOutboxBuffers> free_{kOutboxBuffers};
};

/// Interleaves the results of all bands of B, row by row.
void merge_parts(std::vector<KeptRecords>& parts, std::uint64_t record_bytes, Outbox& outbox) {
  std::vector<std::byte> records;
  while (true) {
    std::uint32_t row = 0;
    bool any = false;
    for (const KeptRecords& part : parts) {
      if (part.is_empty()) continue;
      row = any ? std::min(row, part.row()) : part.row();
      any = true;
    }
    if (!any) break;
    for (KeptRecords& part : parts) {  // bands of B follow each other along the row
      for (; !part.is_empty() && part.row() == row; part.pop()) {
        records.insert(records.end(), part.front(), part.front() + record_bytes);
      }
      if (records.size() >= kOutboxBytes) outbox.send(std::exchange(records, {}));
    }
  }
  outbox.send(std::move(records));
}

}  // namespace

MappedBytes::MappedBytes(std::span<const std::byte> content) : size_(content.size()) {
  void* const data = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(data);
  std::memcpy(data_, content.data(), size_);
}

MappedBytes::~MappedBytes() {
  if (data_ != nullptr) munmap(data_, size_);
}

BandSource::BandSource(const Source& whole, const std::vector<std::uint16_t>& buckets, const Band& band)
    : whole_(whole), header_(whole.header()) {
  records_.reserve(band.num_blocks);
  for (std::uint64_t r = 0; r < buckets.size(); ++r) {
    if (buckets[r] >= band.begin && buckets[r] < band.end) records_.push_back(static_cast<std::uint32_t>(r));
  }
  header_.num_blocks = static_cast<std::uint32_t>(records_.size());
}

void BandSource::read(std::uint64_t first, std::uint64_t count, std::byte* dst) const {
  const std::uint64_t bytes = input_record_bytes(header_.m);
  const std::uint64_t most = std::max<std::uint64_t>(1, kReadBytes / bytes);
  std::vector<std::byte> raw;
  for (std::uint64_t x = first; x < first + count;) {
    const std::uint64_t begin = records_[x];
    std::uint64_t end = x;  // one read for all wanted records that are not too far apart
    while (end < first + count && records_[end] - begin < most) ++end;
    raw.resize((records_[end - 1] + 1 - begin) * bytes);
    whole_.read(begin, raw.size() / bytes, raw.data());
    for (; x < end; ++x, dst += bytes) std::memcpy(dst, raw.data() + (records_[x] - begin) * bytes, bytes);
  }
}

void KeepingSink::append(std::span<const std::byte> records, std::function<void()> release) {
  const bool fits = records.size() <= left_bytes_;
  if (fits) {
    left_bytes_ -= records.size();
    if (!records.empty()) pieces_.emplace_back(records);
  }
  release();
  if (!fits) throw BandTooLarge();
}

void merge_rows(std::deque<KeepingSink>& results, std::uint32_t m, Sink& sink, const Run& run) {
  const std::uint64_t record_bytes = output_record_bytes(m);
  std::vector<KeptRecords> parts;
  for (KeepingSink& result : results) parts.emplace_back(result, record_bytes);
  Outbox outbox(sink, run);
  merge_parts(parts, record_bytes, outbox);
}

}  // namespace spmm::bands
