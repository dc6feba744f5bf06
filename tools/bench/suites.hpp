// The cases that spmm-bench times, read from data/suites.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "spmm/types.hpp"
#include "tools/common/json.hpp"
#include "tools/gen/pattern.hpp"

namespace spmm::tools {

/// A product by name: both operands have this shape and pattern; A has seed 1, B has seed 2.
struct BenchCase {
  std::string name;
  MatrixHeader header;
  PatternKind pattern = PatternKind::uniform;
  std::optional<std::uint32_t> bandwidth;
  std::optional<std::uint32_t> group;
  std::uint32_t max_value = 0;
  std::optional<double> memory_share;       ///< memory limit, over the bytes of both operands
  std::optional<std::string> compare_with;  ///< a case of about the same work, for readers of the measurement

  /// Share of the blocks that are stored.
  [[nodiscard]] double block_density() const;

  /// Values: seed = of the operand that is generated.
  [[nodiscard]] PatternOptions pattern_options(std::uint64_t seed) const;
};

struct BenchSuite {
  std::string name;
  std::vector<BenchCase> cases;
};

/// Errors: InputError (cannot open), FormatError (not JSON, unknown or missing keys, a name twice, an impossible
/// shape).
std::vector<BenchSuite> load_suites(const std::filesystem::path& path);

/// The cases of the named suites and the named cases, in this order, none twice. Errors: UsageError (unknown names).
std::vector<BenchCase> select_cases(const std::vector<BenchSuite>& suites, const std::vector<std::string>& suite_names,
                                    const std::vector<std::string>& case_names);

/// Every suite with its cases, one line each.
std::string suites_text(const std::vector<BenchSuite>& suites);

/// The fields of a case as data/suites.json has them.
Json case_json(const BenchCase& bench_case);

/// Reads a JSON file. Errors: InputError, FormatError.
Json read_json(const std::filesystem::path& path);

}  // namespace spmm::tools
