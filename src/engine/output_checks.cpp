#include "engine/output_checks.hpp"

#include <algorithm>

#include "base/parallel.hpp"
#include "base/text.hpp"
#include "plan/part_cut.hpp"
#include "plan/statistics.hpp"
#include "spmm/error.hpp"

namespace spmm {

namespace fs = std::filesystem;

void check_output_holds_no_input(const fs::path& input, const fs::path& out) {
  const fs::path folder = io::follow_links(input).parent_path();
  if (!same_file(folder.empty() ? "." : folder, out)) return;
  throw UsageError(out.string(), text("the output is the folder that holds the input ", input.string()),
                   "give the output another name");
}

std::uint64_t expected_result_bytes(const MatrixHeader& a, const MatrixHeader& b) {
  const double blocks = plan::expected_statistics(a, b).num_c_blocks;
  return kHeaderBytes + static_cast<std::uint64_t>(blocks * static_cast<double>(output_record_bytes(a.m)));
}

std::uint32_t wanted_parts(const MatrixHeader& a, const MatrixHeader& b, const ProductOptions& options) {
  if (options.num_parts == kAutomaticParts) {
    const double expected_blocks = plan::expected_statistics(a, b).num_c_blocks;
    return plan::automatic_parts(expected_blocks, output_record_bytes(a.m), usable_cores());
  }
  if (options.num_parts <= plan::kMaxParts) return options.num_parts;
  throw UsageError("ProductOptions::num_parts", text(options.num_parts, " is too many"),
                   text("use at most ", plan::kMaxParts));
}

std::uint32_t parts_of_ranks(const MatrixHeader& a, const MatrixHeader& b, const ProductOptions& options,
                             std::uint32_t num_ranks, unsigned num_cores) {
  if (options.num_parts != kAutomaticParts) return wanted_parts(a, b, options);
  const double expected_blocks = plan::expected_statistics(a, b).num_c_blocks;
  const std::uint32_t paying = plan::automatic_parts(expected_blocks / num_ranks, output_record_bytes(a.m), num_cores);
  return num_ranks * std::clamp(plan::kMaxParts / num_ranks, 1u, paying);
}

}  // namespace spmm
