// How fast a product could be at best on a measured device.
#include "tools/bench/limits.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "io/formats/format.hpp"
#include "spmm/error.hpp"
#include "tools/bench/suites.hpp"

namespace spmm::tools {
namespace {

/// Elements from here on take two bytes, and a product of two of them four products of bytes.
constexpr std::uint32_t kByteValues = 256;

/// Bytes of the elements of all blocks.
std::uint64_t element_bytes(const MatrixHeader& header) {
  return header.num_blocks * (input_record_bytes(header.m) - kIndexBytes);
}

}  // namespace

std::vector<Ceilings> load_ceilings(const std::filesystem::path& path) {
  const auto json = read_json(path);
  std::vector<Ceilings> all;
  if (!json.contains("ceilings")) return all;
  try {
    for (const auto& one : json.at("ceilings")) {
      all.push_back({.device = one.at("device").get<std::string>(),
                     .copy_gb_per_s = one.at("copy_gb_per_s").get<double>(),
                     .byte_terms_t_per_s = one.at("byte_terms_t_per_s").get<double>()});
      if (all.back().copy_gb_per_s > 0 && all.back().byte_terms_t_per_s > 0) continue;
      throw FormatError(text(path.string(), ", ceilings of ", all.back().device), "a rate is not above 0",
                        "write ceilings as data/suites.json does");
    }
  } catch (const nlohmann::json::exception& e) {
    throw FormatError(text(path.string(), ", ceilings"), text("a field is missing or of another type (", e.what(), ")"),
                      "write ceilings as data/suites.json does");
  }
  return all;
}

LeastWork least_work(const Report& report, std::uint32_t max_value) {
  const double m = report.a.m;
  const double bytes_each = max_value < kByteValues ? 1 : 2;
  const double terms = static_cast<double>(report.pairs) * m * m * m;
  return {.bytes = io::file_bytes_of(ElementType::u16, report.a) + io::file_bytes_of(ElementType::u16, report.b) +
                   element_bytes(report.a) + element_bytes(report.b) + io::file_bytes_of(ElementType::u32, report.c),
          .terms = terms,
          .byte_terms = terms * bytes_each * bytes_each};
}

std::optional<Limit> limit_of(const LeastWork& work, const std::string& device, const std::vector<Ceilings>& ceilings) {
  const auto known = std::find_if(ceilings.begin(), ceilings.end(),
                                  [&](const Ceilings& one) { return device.find(one.device) != std::string::npos; });
  if (known == ceilings.end()) return std::nullopt;
  return Limit{.ceilings = *known,
               .bytes_ms = static_cast<double>(work.bytes) / (known->copy_gb_per_s * 1e6),
               .terms_ms = work.byte_terms / (known->byte_terms_t_per_s * 1e9)};
}

}  // namespace spmm::tools
