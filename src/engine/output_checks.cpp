// The expected size of a result, and its saturated elements.
#include "engine/output_checks.hpp"

#include <algorithm>
#include <vector>

#include "base/records/head.hpp"
#include "base/records/saturated_count.hpp"
#include "base/text.hpp"
#include "plan/statistics.hpp"
#include "spmm/error.hpp"

namespace spmm {

std::uint64_t expected_result_bytes(const MatrixHeader& a, const MatrixHeader& b, RowRange rows) {
  const double blocks = plan::expected_of_rows(a, b, rows).num_c_blocks;
  return kHeaderBytes + static_cast<std::uint64_t>(blocks * static_cast<double>(output_record_bytes(a.m)));
}

namespace {

constexpr std::uint64_t kSearchedBytes = std::uint64_t{1} << 30;  // for the first saturated element: some 0.1 s
constexpr std::uint64_t kReadBytes = 1u << 20;

/// ", the first at row 3, column 5"; empty where the sink does not give records back, or it is far behind.
std::string first_saturated(const Report& report, Sink& sink) {
  const std::uint64_t m = report.c.m;
  const std::uint64_t record = output_record_bytes(report.c.m);
  const std::uint64_t end = std::min(report.c_blocks, kSearchedBytes / record);
  const std::uint64_t at_once = std::max<std::uint64_t>(1, kReadBytes / record);
  std::vector<std::byte> records(at_once * record);
  for (std::uint64_t first = 0; first < end; first += at_once) {
    const std::uint64_t count = std::min(at_once, end - first);
    if (!sink.read_back(first, count, records.data())) return {};
    for (std::uint64_t x = 0; x < count; ++x) {
      const std::byte* const block = records.data() + x * record;
      if (count_saturated({block, record}) == 0) continue;
      std::uint64_t e = 0;
      while (count_saturated({block + kIndexBytes + e * sizeof kMaxVal, sizeof kMaxVal}) == 0) ++e;
      const BlockIndex at = read_index(block);
      return text(", the first at row ", at.i * m + e / m, ", column ", at.j * m + e % m);
    }
  }
  return {};
}

}  // namespace

void check_saturation(const ProductOptions& options, const Report& report, Sink& sink, const std::string& out) {
  if (options.on_saturation == OnSaturation::report || report.saturated_elements == 0) return;
  throw SaturationError(
      out,
      text(report.saturated_elements, report.saturated_elements == 1 ? " element is" : " elements are",
           " at the limit ", kMaxVal, first_saturated(report, sink)),
      "nothing was written; accept them with ProductOptions::on_saturation = report, or multiply smaller elements");
}

}  // namespace spmm
