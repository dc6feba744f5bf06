// The help of a program, from its options.
#pragma once

#include <cstddef>
#include <string>

#include "cli/options/table.hpp"

namespace spmm::cli {

/// How wide --help may be: COLUMNS, else the width of the terminal, at most the 120 that its texts are written for.
std::size_t help_width();

/// What --help prints. Values: notes = what follows the options.
std::string help_page(const ProgramPage& about, const std::string& notes, std::size_t width);

}  // namespace spmm::cli
