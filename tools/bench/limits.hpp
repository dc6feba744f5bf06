// How fast a product could be at best: the least bytes and multiply-adds it takes, over rates measured on the device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "spmm/report.hpp"

namespace spmm::tools {

/// Rates that a device reaches at best, as measured once.
struct Ceilings {
  std::string device;             ///< a part of the device's name
  double copy_gb_per_s = 0;       ///< bytes read + bytes written of a copy within the device
  double byte_terms_t_per_s = 0;  ///< 10^12 multiply-adds of two bytes
};

/// "ceilings" of data/suites.json; empty if there are none. Errors: InputError, FormatError.
std::vector<Ceilings> load_ceilings(const std::filesystem::path& path);

/// What a product takes at least, whatever the kernel.
struct LeastWork {
  std::uint64_t bytes = 0;  ///< input records read, their blocks read again to multiply, output records written
  double terms = 0;         ///< pairs * m^3 multiply-adds
  double byte_terms = 0;    ///< the same in products of bytes: 4 for each term where elements reach 256, else 1
};

/// Values: max_value is the largest element of the operands.
LeastWork least_work(const Report& report, std::uint32_t max_value);

/// The time that this work takes at the ceilings.
struct Limit {
  Ceilings ceilings;
  double bytes_ms = 0;
  double terms_ms = 0;

  [[nodiscard]] bool bytes_bind() const { return bytes_ms >= terms_ms; }
  [[nodiscard]] double ms() const { return bytes_bind() ? bytes_ms : terms_ms; }
};

/// Nothing if no ceilings are known for the device.
std::optional<Limit> limit_of(const LeastWork& work, const std::string& device, const std::vector<Ceilings>& ceilings);

}  // namespace spmm::tools
