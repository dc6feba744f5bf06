// Chosen blocks of C taken from the records that go by, and computed from the inputs.
#include "verify/sample_verifier.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/records/head.hpp"
#include "base/records/release_once.hpp"
#include "base/run/cancellable.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"
#include "spmm/saturate.hpp"

namespace spmm {
namespace {

constexpr std::uint64_t kSampleShare = 8;             // of a memory limit, one part goes to samples at most
constexpr std::uint64_t kMaxSampleBytes = 64u << 20;  // 237,000 blocks of m = 8
constexpr std::uint64_t kMaxCheckBytes = 256u << 20;  // more saves few readings of the inputs
constexpr std::uint64_t kBatchReadBytes = 1u << 20;   // of one read
constexpr std::uint64_t kCandidatesPerSample = 2;     // some of them turn out to be present

std::uint64_t elements(std::uint32_t m) {
  return std::uint64_t{m} * m;
}

/// Memory that one wanted block takes until it is checked.
std::uint64_t bytes_per_sample(std::uint32_t m) {
  return (1 + kCandidatesPerSample) * sizeof(BlockIndex) + elements(m) * sizeof(std::uint32_t);
}

/// Sorts; a comparison notices a cancelled run.
template <class T, class Less>
void sort_cancellable(T* begin, T* end, const Run& run, const Less& less) {
  std::sort(begin, end, [&](const T& x, const T& y) {
    run.check_cancelled();
    return less(x, y);
  });
}

/// Calls body(index, record) for the records of a source from `first` on, until it returns false.
/// Returns the first record for which it was not called, or for which it returned false.
template <class Body>
std::uint64_t for_records(const Source& source, std::uint64_t first, const Run& run, const Body& body) {
  const MatrixHeader& header = source.header();
  const std::uint64_t bytes = input_record_bytes(header.m);
  const std::uint64_t most = std::max<std::uint64_t>(1, kBatchReadBytes / bytes);
  const AlignedArray<std::byte> raw(std::min<std::uint64_t>(most, header.num_blocks) * bytes);
  while (first < header.num_blocks) {
    run.check_cancelled();
    const std::uint64_t count = std::min<std::uint64_t>(most, header.num_blocks - first);
    source.read(first, count, raw.data());
    for (std::uint64_t r = 0; r < count; ++r, ++first) {
      const std::byte* const record = raw.data() + r * bytes;
      if (!body(read_index(record), record + kIndexBytes)) return first;
    }
  }
  return first;
}

}  // namespace

/// A block of C to recompute. Shapes: values [m, m]; null = expected to be absent.
struct Check {
  BlockIndex at;
  const std::uint32_t* values;
};

namespace {

bool by_column(const Check& x, const Check& y) {
  return x.at.j != y.at.j ? x.at.j < y.at.j : x.at.i < y.at.i;
}

/// Blocks of A in memory while B is read.
class KeptBlocks {
 public:
  KeptBlocks(std::uint64_t bytes, std::uint32_t m, std::uint64_t most)
      : elements_(elements(m)),
        keys_(std::clamp<std::uint64_t>(bytes / (sizeof(Key) + elements_ * sizeof(std::uint16_t)), 1, most)),
        values_(keys_.size() * elements_) {}

  [[nodiscard]] bool is_full() const { return size_ == keys_.size(); }
  [[nodiscard]] bool is_empty() const { return size_ == 0; }
  void clear() { size_ = 0; }

  void add(BlockIndex at, const std::byte* values) {
    std::memcpy(values_.data() + size_ * elements_, values, elements_ * sizeof(std::uint16_t));
    keys_[size_] = {.at = at, .slot = static_cast<std::uint32_t>(size_)};
    ++size_;
  }

  void sort(const Run& run) {
    sort_cancellable(keys_.data(), keys_.data() + size_, run, [](const Key& x, const Key& y) { return x.at < y.at; });
  }

  /// Elements of a block, null if it is not here. Values: sorted.
  [[nodiscard]] const std::uint16_t* find(BlockIndex at) const {
    const Key* const end = keys_.data() + size_;
    const Key* const found =
        std::lower_bound<const Key*>(keys_.data(), end, at, [](const Key& x, BlockIndex y) { return x.at < y; });
    return found != end && found->at == at ? values_.data() + found->slot * elements_ : nullptr;
  }

 private:
  struct Key {
    BlockIndex at;
    std::uint32_t slot;  // a matrix has fewer than 2^32 blocks
  };

  std::uint64_t elements_;
  AlignedArray<Key> keys_;
  AlignedArray<std::uint16_t> values_;
  std::uint64_t size_ = 0;
};

/// sums[r, c] += sum over t of a[r, t] * b[t, c], exactly. Shapes: sums, a [m, m], b [m, m] u16, unaligned.
void add_product(const std::uint16_t* a, const std::byte* b, std::uint32_t m, std::uint64_t* sums) {
  for (std::uint32_t t = 0; t < m; ++t) {
    for (std::uint32_t c = 0; c < m; ++c) {
      std::uint16_t value = 0;
      std::memcpy(&value, b + (std::uint64_t{t} * m + c) * sizeof value, sizeof value);
      for (std::uint32_t r = 0; r < m; ++r) sums[r * m + c] += multiply_exact(a[r * m + t], value);
    }
  }
}

}  // namespace

/// Blocks that are recomputed together, in one reading of A.
struct VerifyingSink::Batch {
  std::span<const Check> checks;      // by column
  std::vector<std::uint32_t> rows;    // of A that they need, ascending
  AlignedArray<std::uint64_t>& sums;  // [checks, m, m] exact
};

VerifySettings verify_settings(std::uint64_t num_blocks, std::uint64_t seed, std::uint32_t m,
                               std::uint64_t memory_limit_bytes) {
  const bool is_limited = memory_limit_bytes != 0;
  const std::uint64_t most =
      is_limited ? std::min(memory_limit_bytes / kSampleShare, kMaxSampleBytes) : kMaxSampleBytes;
  const std::uint64_t per_sample = bytes_per_sample(m);
  const std::uint64_t num_samples = std::min(num_blocks, std::max<std::uint64_t>(1, most / per_sample));
  const std::uint64_t sample_bytes = num_samples * per_sample;
  const std::uint64_t left =
      is_limited ? memory_limit_bytes - std::min(memory_limit_bytes, sample_bytes) : kMaxCheckBytes;
  return {.num_blocks = num_blocks,
          .seed = seed,
          .sample_bytes = sample_bytes,
          .check_bytes = std::min(left, kMaxCheckBytes)};
}

VerifyingSink::VerifyingSink(Sink& next, const Source& a, const Source& b, const VerifySettings& settings,
                             const Run& run)
    : next_(next), a_(a), b_(b), m_(a.header().m), check_bytes_(settings.check_bytes), random_state_(settings.seed) {
  // Both factors are below 2^32. No product has more blocks than it has pairs.
  const std::uint64_t most_pairs = std::uint64_t{a.header().num_blocks} * b.header().num_blocks;
  const std::uint64_t that_fit = std::max<std::uint64_t>(1, settings.sample_bytes / bytes_per_sample(m_));
  wanted_ = std::min({settings.num_blocks, that_fit, most_pairs});
  if (wanted_ == 0) return;
  sample_at_ = AlignedArray<BlockIndex>(wanted_, Pages::small);
  sample_values_ = AlignedArray<std::uint32_t>(wanted_ * elements(m_), Pages::small);
  candidates_ = AlignedArray<BlockIndex>(kCandidatesPerSample * wanted_);
  std::vector<std::byte> raw(input_record_bytes(m_));
  for (BlockIndex& at : candidates_) {
    run.check_cancelled();
    a.read(random_below(a.header().num_blocks), 1, raw.data());
    at.i = read_index(raw.data()).i;
    b.read(random_below(b.header().num_blocks), 1, raw.data());
    at.j = read_index(raw.data()).j;
  }
  sort_cancellable(candidates_.begin(), candidates_.end(), run,
                   [](const BlockIndex& x, const BlockIndex& y) { return x < y; });
  const BlockIndex* const end = std::unique(candidates_.begin(), candidates_.end());
  candidates_.truncate(static_cast<std::uint64_t>(end - candidates_.begin()));
}

std::uint64_t VerifyingSink::random_below(std::uint64_t bound) {
  // splitmix64; the bias of the remainder does not matter for a sample.
  std::uint64_t z = (random_state_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (z ^ (z >> 31)) % bound;
}

void VerifyingSink::append(std::span<const std::byte> records, std::function<void()> release) {
  ReleaseOnce releaser(std::move(release));
  const std::uint64_t count = records.size() / output_record_bytes(m_);
  sample(records.data(), count);
  strike_out_present(records.data(), count);
  next_.append(records, releaser.hand_on());
}

void VerifyingSink::sample(const std::byte* records, std::uint64_t count) {
  // Reservoir sampling: record number s replaces a random sample with probability wanted / (s + 1).
  const std::uint64_t record = output_record_bytes(m_);
  for (std::uint64_t r = 0; r < count; ++r, ++seen_) {
    const std::uint64_t place = num_samples_ < wanted_ ? num_samples_ : random_below(seen_ + 1);
    if (place >= wanted_) continue;
    if (place == num_samples_) ++num_samples_;
    const std::byte* at = records + r * record;
    sample_at_[place] = read_index(at);
    std::memcpy(sample_values_.data() + place * elements(m_), at + kIndexBytes, record - kIndexBytes);
  }
}

void VerifyingSink::strike_out_present(const std::byte* records, std::uint64_t count) {
  if (count == 0) return;
  const std::uint64_t record = output_record_bytes(m_);
  const BlockIndex last = read_index(records + (count - 1) * record);
  std::uint64_t low = 0;  // candidates ascend as records do: no record before this one equals the next candidate
  for (; next_candidate_ < candidates_.size() && candidates_[next_candidate_] <= last; ++next_candidate_) {
    const BlockIndex at = candidates_[next_candidate_];
    for (std::uint64_t high = count; low < high;) {
      const std::uint64_t middle = (low + high) / 2;
      if (read_index(records + middle * record) < at) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (read_index(records + low * record) != at) candidates_[num_absent_++] = at;
  }
}

std::uint64_t VerifyingSink::gather_absent() {
  while (next_candidate_ < candidates_.size()) candidates_[num_absent_++] = candidates_[next_candidate_++];
  return num_absent_;
}

void VerifyingSink::recompute(Batch& batch, const Run& run) const {
  std::fill_n(batch.sums.begin(), batch.checks.size() * elements(m_), 0);
  KeptBlocks kept(check_bytes_ / 2, m_, std::max(1u, a_.header().num_blocks));
  for (std::uint64_t next = 0; next < a_.header().num_blocks;) {
    kept.clear();
    next = for_records(a_, next, run, [&](BlockIndex at, const std::byte* values) {
      if (!std::binary_search(batch.rows.begin(), batch.rows.end(), at.i)) return true;
      if (kept.is_full()) return false;
      kept.add(at, values);
      return true;
    });
    if (kept.is_empty()) continue;
    kept.sort(run);
    for_records(b_, 0, run, [&](BlockIndex at, const std::byte* values) {
      const auto before = [](const Check& check, std::uint32_t col) { return check.at.j < col; };
      auto check = std::lower_bound(batch.checks.begin(), batch.checks.end(), at.j, before);
      for (; check != batch.checks.end() && check->at.j == at.j; ++check) {
        const std::uint16_t* const a = kept.find({.i = check->at.i, .j = at.i});
        if (a == nullptr) continue;
        run.check_cancelled();
        const auto number = static_cast<std::uint64_t>(check - batch.checks.begin());
        add_product(a, values, m_, batch.sums.data() + number * elements(m_));
      }
      return true;
    });
  }
}

void VerifyingSink::compare(const Batch& batch) const {
  for (std::uint64_t x = 0; x < batch.checks.size(); ++x) {
    const Check& check = batch.checks[x];
    for (std::uint64_t e = 0; e < elements(m_); ++e) {
      const std::uint32_t found = check.values == nullptr ? 0 : check.values[e];
      const std::uint32_t expected = saturate(batch.sums[x * elements(m_) + e]);
      if (found == expected) continue;
      throw VerifyError(
          "verify",
          text("result block (", check.at.i, ", ", check.at.j, "), element (", e / m_, ", ", e % m_, ") is ", found,
               check.values == nullptr ? " (block absent)" : "", ", recomputed from the inputs it is ", expected),
          "nothing was written; please report this as a bug with both inputs");
    }
  }
}

std::uint64_t VerifyingSink::check(const Run& run) {
  const std::uint64_t num_absent = std::min(gather_absent(), wanted_);
  const std::uint64_t num_checks = num_samples_ + num_absent;
  if (num_checks == 0) return 0;
  const std::uint64_t bytes = sizeof(Check) + sizeof(std::uint32_t) + elements(m_) * sizeof(std::uint64_t);
  const std::uint64_t most = std::clamp<std::uint64_t>(check_bytes_ / 2 / bytes, 1, num_checks);
  AlignedArray<Check> checks(most);
  AlignedArray<std::uint64_t> sums(most * elements(m_));
  for (std::uint64_t first = 0; first < num_checks; first += most) {
    const std::uint64_t count = std::min(most, num_checks - first);
    std::vector<std::uint32_t> rows;
    rows.reserve(count);
    for (std::uint64_t x = 0; x < count; ++x) {
      const std::uint64_t number = first + x;
      const bool is_sample = number < num_samples_;
      checks[x] = {.at = is_sample ? sample_at_[number] : candidates_[number - num_samples_],
                   .values = is_sample ? sample_values_.data() + number * elements(m_) : nullptr};
      rows.push_back(checks[x].at.i);
    }
    sort_cancellable(checks.data(), checks.data() + count, run, by_column);
    sort_cancellable(rows.data(), rows.data() + count, run, std::less<>());
    Batch batch{.checks = {checks.data(), count}, .rows = std::move(rows), .sums = sums};
    recompute(batch, run);
    compare(batch);
  }
  return num_checks;
}

}  // namespace spmm
