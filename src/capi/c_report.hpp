// A report as one JSON object, written without a JSON library.
#pragma once

#include <string>

#include "spmm/report.hpp"

namespace spmm::capi {

/// The keys of the JSON of `spmm --report`, but those of its command line and its paths.
std::string report_json(const Report& report);

}  // namespace spmm::capi
