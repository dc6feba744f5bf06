// One conversion.
#pragma once

#include <string>

#include "tools/convert/options.hpp"

namespace spmm::tools {

/// Writes the output; returns what it is in one line. Errors: those of readers and writers, UsageError (a size that
/// does not fit), ShapeError.
std::string convert_file(const ConvertOptions& options);

}  // namespace spmm::tools
