// The library names fields of its options in messages; programs name the options of the command line.
#pragma once

#include <string>
#include <string_view>

namespace spmm::cli {

/// The message with "EngineOptions::..." and "ProductOptions::..." replaced by what is typed for them.
std::string command_line_words(std::string_view message);

}  // namespace spmm::cli
