// The nearest known word to one that was mistyped.
#include "cli/options/did_you_mean.hpp"

#include <algorithm>
#include <utility>

namespace spmm::cli {
namespace {

/// Words of other programs, and what they are called here.
constexpr std::pair<const char*, const char*> kElsewhere[] = {
    {"gpu", "cuda"}, {"j", "threads"}, {"jobs", "threads"}, {"V", "version"}};

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(b.size() + 1);
  for (std::size_t y = 0; y <= b.size(); ++y) last[y] = y;
  for (std::size_t x = 1; x <= a.size(); ++x) {
    std::vector<std::size_t> row(b.size() + 1, x);
    for (std::size_t y = 1; y <= b.size(); ++y) {
      row[y] = std::min({last[y] + 1, row[y - 1] + 1, last[y - 1] + (a[x - 1] == b[y - 1] ? 0 : 1)});
      const bool is_swapped = x > 1 && y > 1 && a[x - 1] == b[y - 2] && a[x - 2] == b[y - 1];
      if (is_swapped) row[y] = std::min(row[y], before_last[y - 2] + 1);
    }
    before_last = std::move(last);
    last = std::move(row);
  }
  return last[b.size()];
}

std::string nearest_word(const std::string& word, const std::vector<std::string>& known) {
  for (const auto& [elsewhere, here] : kElsewhere) {
    if (word == elsewhere && std::find(known.begin(), known.end(), here) != known.end()) return here;
  }
  constexpr std::size_t kLeastStart = 3;
  std::string best;
  std::size_t best_distance = 0;
  std::vector<std::string> longer;
  for (const std::string& one : known) {
    if (word.size() >= kLeastStart && one.starts_with(word)) longer.push_back(one);
    const std::size_t distance = edit_distance(word, one);
    if (3 * distance > one.size() || (!best.empty() && distance >= best_distance)) continue;
    best = one;
    best_distance = distance;
  }
  return longer.size() == 1 ? longer.front() : best;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known, const std::string& prefix) {
  const std::string nearest = nearest_word(word, known);
  return nearest.empty() ? "" : ", did you mean " + prefix + nearest + "?";
}

}  // namespace spmm::cli
