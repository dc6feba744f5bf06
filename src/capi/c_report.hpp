// A report as one JSON object, written without a JSON library.
#pragma once

#include <string>

#include "spmm/report.hpp"

namespace spmm::capi {

/// Files of a product; empty: in memory.
struct RunPaths {
  std::string a{}, b{}, out{};
};

/// The JSON of `spmm --report`, without its command line.
std::string report_json(const Report& report, const RunPaths& paths);

}  // namespace spmm::capi
