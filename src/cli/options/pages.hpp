// Manual page and completions of a program, from its options.
#pragma once

#include <string>
#include <vector>

#include "cli/options/table.hpp"

namespace spmm::cli {

/// An option as pages show it.
struct PageOption {
  std::string letter{};                ///< "q", or nothing
  std::string name{};                  ///< "quiet", or the letter where it has no other name
  std::string argument{};              ///< "auto|N"; nothing: a switch
  std::string description{};           ///< one clause
  std::vector<std::string> choices{};  ///< words that the argument may be, for completion
  bool is_file = false;                ///< the argument is a file or a folder

  /// "--quiet", or "-n" for a letter alone.
  [[nodiscard]] std::string typed() const { return (name.size() == 1 ? "-" : "--") + name; }
};

std::vector<PageOption> page_options(const OptionTable& options, const std::vector<std::string>& groups);

/// A page in the macros of man(7). Values: help = what --help prints before the notes.
std::string manual_page(const std::string& program, const std::string& help, const std::vector<PageOption>& options,
                        const std::string& notes);

std::string bash_completion(const std::string& program, const std::vector<PageOption>& options);
std::string zsh_completion(const std::string& program, const std::vector<PageOption>& options);

}  // namespace spmm::cli
