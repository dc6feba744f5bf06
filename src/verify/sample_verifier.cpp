#include "verify/sample_verifier.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "base/text.hpp"
#include "spmm/saturate.hpp"

namespace spmm {
namespace {

BlockIndex index_of(const std::byte* record) {
  BlockIndex at;
  std::memcpy(&at.i, record, 4);
  std::memcpy(&at.j, record + 4, 4);
  return at;
}

using Values = std::vector<std::uint16_t>;  // [m, m]
/// Blocks of one block row of A by t, or of one block column of B by t.
using Line = std::unordered_map<std::uint32_t, Values>;

/// Reads a whole source in order and keeps the blocks whose line (row of A or column of B) is in `lines`.
void collect(const Source& source, bool by_row, std::unordered_map<std::uint32_t, Line>& lines, const Run& run) {
  const MatrixHeader& header = source.header();
  const std::uint64_t record = input_record_bytes(header.m);
  const std::uint64_t chunk = std::max<std::uint64_t>(1, (4u << 20) / record);
  std::vector<std::byte> raw(std::min<std::uint64_t>(chunk, header.num_blocks) * record);
  for (std::uint64_t first = 0; first < header.num_blocks; first += chunk) {
    run.check_cancelled();
    const std::uint64_t count = std::min<std::uint64_t>(chunk, header.num_blocks - first);
    source.read(first, count, raw.data());
    for (std::uint64_t r = 0; r < count; ++r) {
      const std::byte* at = raw.data() + r * record;
      const BlockIndex index = index_of(at);
      const auto line = lines.find(by_row ? index.i : index.j);
      if (line == lines.end()) continue;
      Values values(std::size_t{header.m} * header.m);
      std::memcpy(values.data(), at + kIndexBytes, values.size() * sizeof(std::uint16_t));
      line->second.emplace(by_row ? index.j : index.i, std::move(values));
    }
  }
}

/// The saturated product of a block row and a block column.
std::vector<std::uint32_t> multiply_lines(const Line& row, const Line& column, std::uint32_t m) {
  std::vector<std::uint64_t> sums(std::size_t{m} * m, 0);
  for (const auto& [t, a] : row) {
    const auto match = column.find(t);
    if (match == column.end()) continue;
    const Values& b = match->second;
    for (std::uint32_t r = 0; r < m; ++r)
      for (std::uint32_t c = 0; c < m; ++c)
        for (std::uint32_t k = 0; k < m; ++k) sums[r * m + c] += multiply_exact(a[r * m + k], b[k * m + c]);
  }
  std::vector<std::uint32_t> values(sums.size());
  std::transform(sums.begin(), sums.end(), values.begin(), [](std::uint64_t sum) { return saturate(sum); });
  return values;
}

}  // namespace

VerifyingSink::VerifyingSink(Sink& next, const Source& a, const Source& b, std::uint64_t count, std::uint64_t seed)
    : next_(next), a_(a), b_(b), m_(a.header().m), wanted_(count), random_state_(seed) {
  if (a.header().num_blocks == 0 || b.header().num_blocks == 0) return;
  const std::uint64_t record = input_record_bytes(m_);
  std::vector<std::byte> raw(record);
  for (std::uint64_t x = 0; x < 2 * count; ++x) {
    a.read(random_below(a.header().num_blocks), 1, raw.data());
    const std::uint32_t i = index_of(raw.data()).i;
    b.read(random_below(b.header().num_blocks), 1, raw.data());
    absent_.push_back({.i = i, .j = index_of(raw.data()).j});
  }
  std::sort(absent_.begin(), absent_.end());
  absent_.erase(std::unique(absent_.begin(), absent_.end()), absent_.end());
}

std::uint64_t VerifyingSink::random_below(std::uint64_t bound) {
  // splitmix64; the bias of the remainder does not matter for a sample.
  std::uint64_t z = (random_state_ += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (z ^ (z >> 31)) % bound;
}

void VerifyingSink::append(std::span<const std::byte> records, std::function<void()> release) {
  const std::uint64_t count = records.size() / output_record_bytes(m_);
  sample(records.data(), count);
  strike_out_present(records.data(), count);
  next_.append(records, std::move(release));
}

void VerifyingSink::sample(const std::byte* records, std::uint64_t count) {
  // Reservoir sampling: record number s replaces a random sample with probability wanted / (s + 1).
  const std::uint64_t record = output_record_bytes(m_);
  for (std::uint64_t r = 0; r < count; ++r, ++seen_) {
    std::uint64_t slot = samples_.size();
    if (slot >= wanted_) slot = random_below(seen_ + 1);
    if (slot >= wanted_) continue;
    if (slot == samples_.size()) samples_.emplace_back();
    const std::byte* at = records + r * record;
    samples_[slot].at = index_of(at);
    samples_[slot].values.resize(std::size_t{m_} * m_);
    std::memcpy(samples_[slot].values.data(), at + kIndexBytes, record - kIndexBytes);
  }
}

void VerifyingSink::strike_out_present(const std::byte* records, std::uint64_t count) {
  if (count == 0) return;
  const std::uint64_t record = output_record_bytes(m_);
  const BlockIndex first = index_of(records);
  const BlockIndex last = index_of(records + (count - 1) * record);
  const auto begin = std::lower_bound(absent_.begin(), absent_.end(), first);
  const auto end = std::upper_bound(begin, absent_.end(), last);
  const auto is_present = [&](const BlockIndex& at) {
    std::uint64_t low = 0;
    std::uint64_t high = count;
    while (low < high) {
      const std::uint64_t middle = (low + high) / 2;
      if (index_of(records + middle * record) < at) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < count && index_of(records + low * record) == at;
  };
  absent_.erase(std::remove_if(begin, end, is_present), end);
}

std::uint64_t VerifyingSink::check(const Run& run) const {
  std::vector<Sample> samples = samples_;
  for (std::size_t x = 0; x < absent_.size() && x < wanted_; ++x) samples.push_back({.at = absent_[x], .values = {}});
  std::unordered_map<std::uint32_t, Line> rows;
  std::unordered_map<std::uint32_t, Line> columns;
  for (const Sample& s : samples) {
    rows[s.at.i];
    columns[s.at.j];
  }
  collect(a_, true, rows, run);
  collect(b_, false, columns, run);
  for (const Sample& s : samples) {
    run.check_cancelled();
    const std::vector<std::uint32_t> expected = multiply_lines(rows.at(s.at.i), columns.at(s.at.j), m_);
    for (std::uint32_t e = 0; e < expected.size(); ++e) {
      const std::uint32_t found = s.values.empty() ? 0 : s.values[e];
      if (found == expected[e]) continue;
      throw VerifyError(
          "verify",
          text("result block (", s.at.i, ", ", s.at.j, "), element (", e / m_, ", ", e % m_, ") is ", found,
               s.values.empty() ? " (block absent)" : "", ", recomputed from the inputs it is ", expected[e]),
          "nothing was written; please report this as a bug with both inputs");
    }
  }
  return samples.size();
}

}  // namespace spmm
