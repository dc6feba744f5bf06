// Options as a program declares them and as they were typed, and the values that they stand for. options.cpp alone
// includes the library that parses them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spmm/options.hpp"
#include "spmm/types.hpp"

namespace spmm::cli {

/// An option takes a value; what it is where none is typed.
struct OptionValue {
  std::optional<std::string> otherwise{};
};
inline OptionValue value() {
  return {};
}
inline OptionValue value(const std::string& otherwise) {
  return {.otherwise = otherwise};
}

/// An option as it was declared.
struct OptionDetails {
  std::string group;   ///< the heading that the help shows it under
  std::string letter;  ///< "q", or nothing
  std::string name;    ///< "quiet", or the letter if it has no other name
  std::string description;
  std::string argument{};  ///< "FILE"; nothing: a switch
  std::optional<std::string> otherwise{};

  /// "--quiet", or "-n" for a letter alone.
  [[nodiscard]] std::string typed() const { return (name.size() == 1 ? "-" : "--") + name; }
  [[nodiscard]] bool is_switch() const { return argument.empty(); }
};

/// A program that is a part of another one, as "gen" of spmm.
struct SubcommandName {
  std::string word;
  std::string summary;
};

/// What the help shows of a program.
struct ProgramPage {
  std::string program;
  std::string description;
  std::string arguments{};   ///< what follows the program's name
  std::string other_form{};  ///< words that run the same program, or nothing
  std::vector<SubcommandName> subcommands{};
  std::vector<OptionDetails> options{};  ///< of all groups but "hidden" and "positional"
};

/// What was typed.
class ParsedOptions {
 public:
  /// How often an option was given.
  [[nodiscard]] std::size_t count(const std::string& option) const;
  /// Its value as typed, else what it is otherwise; of a switch 1, or 0 for "--quiet=false". Errors: std::out_of_range
  /// if there is neither.
  [[nodiscard]] const std::string& text(const std::string& option) const;
  /// Whether text() has something to give.
  [[nodiscard]] bool has_text(const std::string& option) const;
  /// Words beyond the positionals that were declared, of a program that takes_more().
  [[nodiscard]] const std::vector<std::string>& more() const { return more_; }

 private:
  friend class OptionTable;
  struct Entry {
    std::size_t count = 0;
    std::optional<std::string> text{};
  };
  std::map<std::string, Entry> entries_;
  std::vector<std::string> more_;
};

/// The options of a program.
class OptionTable {
 public:
  OptionTable(const std::string& program, const std::string& description)
      : page_{.program = program, .description = description} {}

  /// What follows the program's name, and the words that run the same program, if there are such.
  void usage(const std::string& arguments, const std::string& other_form = "") {
    page_.arguments = arguments;
    page_.other_form = other_form;
  }
  void subcommands(std::vector<SubcommandName> names) { page_.subcommands = std::move(names); }

  /// Adds options by calls of what it returns: ("q,quiet", "no output")("n", "how many", value("1"), "N").
  class Adder {
   public:
    Adder(OptionTable& table, std::string group) : table_(&table), group_(std::move(group)) {}
    Adder& operator()(const std::string& names, const std::string& description);
    Adder& operator()(const std::string& name, const std::string& description, const OptionValue& value,
                      const std::string& argument = "VALUE");

   private:
    OptionTable* table_;
    std::string group_;
  };
  Adder add_options(const std::string& group = "") { return {*this, group}; }
  void parse_positional(const std::vector<std::string>& names) { positionals_ = names; }
  /// Leaves all other options out of the help.
  void show_only(const std::vector<std::string>& names);
  /// There may be any number of words beyond the positionals.
  void takes_more() { takes_more_ = true; }

  [[nodiscard]] const ProgramPage& page() const { return page_; }

  /// Refuses more positionals than declared, and an option that is given twice. A misspelt option is reported with the
  /// one that may be meant. Variables that were options once (SPMM_KERNEL) get a warning. Errors: UsageError.
  [[nodiscard]] ParsedOptions parse(int argc, const char* const* argv) const;

 private:
  void declare(const OptionDetails& option);
  /// Null if there is no such option.
  [[nodiscard]] const OptionDetails* find(const std::string& name) const;
  [[noreturn]] void throw_unknown(const std::string& typed) const;
  [[nodiscard]] std::vector<std::string> words_of(int argc, const char* const* argv) const;

  ProgramPage page_;
  std::vector<OptionDetails> all_;
  std::vector<std::string> positionals_;
  bool takes_more_ = false;
};

/// The value of an option, and what messages call it.
struct OptionText {
  std::string value;
  std::string where;  ///< "--memory-limit", or "SPMM_MEMORY_LIMIT (environment)"
};

/// Value of an option: as typed, else for --backend, --threads and --memory-limit from the environment (SPMM_THREADS),
/// else its default.
std::optional<OptionText> option_text(const ParsedOptions& parsed, const std::string& option);

/// Whether a switch is on.
bool option_flag(const ParsedOptions& parsed, const std::string& option);

/// Numbers by option_text(); nothing if the option is not given and has no default. Errors: UsageError.
std::optional<std::uint64_t> option_bytes(const ParsedOptions& parsed, const std::string& option);
std::optional<std::uint64_t> option_count(const ParsedOptions& parsed, const std::string& option, std::uint64_t low = 0,
                                          std::uint64_t high = UINT64_MAX);

/// Position of a value in `choices`. Errors: UsageError that lists the choices.
std::size_t parse_choice(const std::string& text, const std::string& where, const std::vector<std::string>& choices);

/// Position of the option's value in `choices`; 0 if it is not given. Errors: UsageError that lists the choices.
std::size_t option_choice(const ParsedOptions& parsed, const std::string& option,
                          const std::vector<std::string>& choices);

/// --backend. Errors: UsageError, DeviceError if it is cuda and this build has none.
Backend backend_option(const ParsedOptions& parsed);

/// --threads; 0 = every core, also if it is not given. Errors: UsageError.
unsigned threads_option(const ParsedOptions& parsed);

/// --device; -1 = choose, also if it is not given. Errors: UsageError.
int device_option(const ParsedOptions& parsed);

/// --devices, as parse_devices(). Errors: UsageError.
std::vector<int> devices_option(const ParsedOptions& parsed);

/// An option that names a file; nothing if it is not given. Errors: UsageError (an empty name).
std::optional<OptionText> file_option(const ParsedOptions& parsed, const std::string& option);

/// Whether "-" stands for a standard stream.
enum class Dash : std::uint8_t { refused_input, refused_output, allowed };

/// Errors: UsageError for "-" where the program must read or write at places that it chooses.
void check_dash(const std::string& path, const std::string& what, Dash dash);

/// A positional that must be there. `what` says what it is ("output file"). Errors: UsageError, also as check_dash().
std::string required_positional(const ParsedOptions& parsed, const std::string& name, const std::string& what,
                                Dash dash = Dash::refused_input);

/// Bytes from "8G", "512M", "2GiB", "1.5T", "1e9": k M G T = powers of 1000, Ki Mi Gi Ti = powers of 1024, B optional.
/// Errors: UsageError that names `where` (the option).
std::uint64_t parse_bytes(const std::string& text, const std::string& where = "size");

/// A whole number: "33000000", "33e6", "1_000_000". Errors: UsageError, also outside [low, high].
std::uint64_t parse_count(const std::string& text, const std::string& where = "count", std::uint64_t low = 0,
                          std::uint64_t high = UINT64_MAX);

/// parse_verify() of "full".
inline constexpr std::uint64_t kVerifyFull = 0xFFFF'FFFF'FFFF'FFFFu;

/// What --verify asks for: a number of blocks, or "full". Errors: UsageError.
std::uint64_t parse_verify(const std::string& text, const std::string& where);

/// CUDA devices from "0,1" or "all" (kAllDevices); none from "auto". Errors: UsageError.
std::vector<int> parse_devices(const std::string& text, const std::string& where);

/// Block rows from "FIRST:END"; what is left out is the first or the last row. Errors: UsageError.
RowRange parse_rows(const std::string& text, const std::string& where);

/// The known word that other programs call `word`, else the nearest one: a third of its letters differ at most, or it
/// is the only one that starts with `word` (of three letters or more). "" if there is none.
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

/// ", did you mean X?" with the nearest word after `prefix`, or "".
std::string suggestion(const std::string& word, const std::vector<std::string>& known, const std::string& prefix = "");

}  // namespace spmm::cli
