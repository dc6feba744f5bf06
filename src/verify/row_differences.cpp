// A row compared with its exact sums, and clauses that describe what differs.
#include "verify/row_differences.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "spmm/saturate.hpp"
#include "verify/rows/exact_rows.hpp"

namespace spmm {
namespace {

constexpr std::size_t kMaxRows = 4;    // that are computed anew
constexpr std::size_t kMaxBlocks = 4;  // that are described

/// One block row of C as it was found, and as it must be.
class ComparedRow {
 public:
  ComparedRow(const ProofState& state, const SaturatedBlocks& saturated, std::uint32_t row)
      : s_(state), saturated_(saturated), row_(row), slot_(state.a_rows.slot(row)), y_(state.m, 0), c_(state.m, 0) {}

  /// Takes the found blocks; without them it compares sums of whole rows.
  void find(const FindRow& find_row) {
    if (!find_row) return;
    has_found_ = find_row(row_, [&](BlockIndex at, const std::byte* values) {
      if (at.i != row_) return;
      std::vector<std::uint32_t>& block = found_[at.j];
      block.resize(s_.elements());
      std::memcpy(block.data(), values, block.size() * sizeof(std::uint32_t));
    });
  }

  void compare(ExactRow& exact, const Run& run) {
    const std::vector<WantedSum> all(exact.cols().size(), WantedSum::exact);
    exact.multiply(all, s_.kernels.add_product, run);
    for (std::uint32_t place = 0; place < exact.cols().size(); ++place) {
      const std::uint32_t col = exact.cols()[place];
      const std::uint64_t* const sums = exact.sums(place);
      if (has_found_) {
        compare_block(col, sums);
      } else {
        add_sums(col, sums);
      }
    }
  }

  /// Behind all slabs.
  void finish() {
    if (has_found_) {
      const std::vector<std::uint64_t> zeros(s_.elements(), 0);
      while (!found_.empty()) compare_block(found_.begin()->first, zeros.data());
    } else {
      compare_sums();
    }
  }

  [[nodiscard]] std::uint64_t num_blocks() const { return num_blocks_; }
  [[nodiscard]] bool differs() const { return num_blocks_ != 0 || rows_differ_; }
  [[nodiscard]] const std::vector<std::string>& clauses() const { return clauses_; }

 private:
  void compare_block(std::uint32_t col, const std::uint64_t* sums) {
    const auto found = found_.find(col);
    const bool is_there = found != found_.end();
    std::uint64_t num = 0;
    std::uint64_t first = 0;
    for (std::uint64_t e = s_.elements(); e-- > 0;) {
      if ((is_there ? found->second[e] : 0) == saturate(sums[e])) continue;
      ++num;
      first = e;
    }
    if (num != 0) {
      ++num_blocks_;
      clauses_.push_back(text("block (", row_, ", ", col, is_there ? "): " : ") is absent: ", num, " of ",
                              s_.elements(), " elements differ, element (", first / s_.m, ", ", first % s_.m,
                              ") expected ", saturate(sums[first]), ", found ", is_there ? found->second[first] : 0));
      if (clauses_.size() > kMaxBlocks) clauses_.pop_back();
    }
    if (is_there) found_.erase(found);
  }

  /// Y of the row, and C X as it has to be, without saturated elements where they were left out.
  void add_sums(std::uint32_t col, const std::uint64_t* sums) {
    const bool leaves_out = slot_ != RowSlots::kNone && s_.num_columns > 1 && s_.may_saturate[slot_] != 0;
    for (std::uint64_t e = 0; e < s_.elements(); ++e) {
      const std::uint64_t x = s_.random(std::uint64_t{col} * s_.m + e % s_.m, 0);
      const std::uint64_t r = e / s_.m;
      y_[r] = add61(y_[r], multiply61(reduce61(sums[e]), x));
      if (leaves_out && sums[e] >= kMaxVal) {
        if (!is_claimed({.i = row_, .j = col}, static_cast<std::uint32_t>(e))) rows_differ_ = true;
        ++num_saturated_;
      } else {
        c_[r] = add61(c_[r], multiply61(saturate(sums[e]), x));
      }
    }
  }

  [[nodiscard]] bool is_claimed(BlockIndex at, std::uint32_t element) const {
    const auto& blocks = saturated_.blocks;
    const auto found = std::lower_bound(blocks.begin(), blocks.end(), at,
                                        [](const SaturatedBlock& x, BlockIndex y) { return x.at < y; });
    return found != blocks.end() && found->at == at && saturated_.is_saturated(*found, element);
  }

  void compare_sums() {
    if (slot_ == RowSlots::kNone) {
      rows_differ_ = true;
      clauses_.push_back(text("block row ", row_, " must be zero: A stores no block there"));
      return;
    }
    std::uint64_t num_claimed = 0;
    for (const SaturatedBlock& block : saturated_.blocks) {
      if (block.at.i != row_) continue;
      for (std::uint32_t e = 0; e < s_.elements(); ++e) num_claimed += saturated_.is_saturated(block, e) ? 1 : 0;
    }
    rows_differ_ |= num_claimed != num_saturated_;
    std::string elements;
    for (std::uint32_t r = 0; r < s_.m; ++r) {
      const std::uint64_t residual = s_.residual[0].at(slot_)[r];
      const std::uint64_t found = subtract61(s_.num_columns > 1 ? 0 : y_[r], residual);  // C X
      if (found == c_[r]) continue;
      rows_differ_ = true;
      elements += text(elements.empty() ? "" : ", ", std::uint64_t{row_} * s_.m + r);
    }
    if (!rows_differ_) return;
    clauses_.push_back(elements.empty() ? text("block row ", row_, ": elements are ", kMaxVal, " that must not be")
                                        : text("block row ", row_, ": element rows ", elements, " differ"));
  }

  const ProofState& s_;
  const SaturatedBlocks& saturated_;
  std::uint32_t row_;
  std::uint32_t slot_;
  bool has_found_ = false;
  std::map<std::uint32_t, std::vector<std::uint32_t>> found_;  // by block column
  std::vector<std::uint64_t> y_;                               // [m] without found blocks
  std::vector<std::uint64_t> c_;                               // [m] the same
  std::uint64_t num_saturated_ = 0;
  bool rows_differ_ = false;
  std::uint64_t num_blocks_ = 0;
  std::vector<std::string> clauses_;
};

}  // namespace

std::string describe_differences(const ProofState& state, const SaturatedBlocks& saturated,
                                 std::span<const std::uint32_t> rows, const FindRow& find_row, const Run& run) {
  const std::span<const std::uint32_t> compared_rows = rows.first(std::min(rows.size(), kMaxRows));
  std::vector<ComparedRow> compared;
  compared.reserve(compared_rows.size());
  for (const std::uint32_t row : compared_rows) compared.emplace_back(state, saturated, row).find(find_row);
  for_exact_rows({state.a, state.b}, state.b_rows, compared_rows, state.settings.memory_bytes, run,
                 [&](std::size_t number, ExactRow& row, bool, bool) { compared[number].compare(row, run); });
  std::uint64_t num_blocks = 0;
  std::string all;
  std::size_t num_clauses = 0;
  for (ComparedRow& row : compared) {
    row.finish();
    num_blocks += row.num_blocks();
    for (const std::string& clause : row.clauses()) {
      if (num_clauses++ < kMaxBlocks) all += (all.empty() ? "" : "; ") + clause;
    }
  }
  const bool any = std::any_of(compared.begin(), compared.end(), [](const ComparedRow& row) { return row.differs(); });
  if (!any) {
    throw std::logic_error(text("ProductOptions::verify_full: block row ", compared_rows.front(),
                                " fails its equations, but is right when it is computed anew: the memory or the "
                                "processor may be faulty, or an input was changed; please run again"));
  }
  const std::string blocks =
      num_blocks == 0 ? "" : text(", ", num_blocks, " blocks of ", compared_rows.size(), " of them");
  return text(rows.size(), rows.size() == 1 ? " block row is" : " block rows are", " wrong", blocks, "; ", all);
}

}  // namespace spmm
