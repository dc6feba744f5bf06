// Options as a program declares them and as they were typed. table.cpp alone includes the library that parses them.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace spmm::cli {

/// A command line that does not fit the options. The message names the option.
class OptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The same for an option that there is not; the message is what was typed: "--quite", "-j".
class UnknownOption : public OptionError {
 public:
  using OptionError::OptionError;
};

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
  /// The first word beyond the positionals of any other program, and an option that was given twice; or nothing.
  [[nodiscard]] const std::string& unexpected() const { return unexpected_; }
  [[nodiscard]] const std::string& repeated() const { return repeated_; }

 private:
  friend class OptionTable;
  struct Entry {
    std::size_t count = 0;
    std::optional<std::string> text{};
  };
  std::map<std::string, Entry> entries_;
  std::vector<std::string> more_;
  std::string unexpected_;
  std::string repeated_;
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

  /// Shapes: words = the program's name and its arguments. Errors: OptionError, UnknownOption.
  [[nodiscard]] ParsedOptions parse(const std::vector<std::string>& words) const;

 private:
  void declare(const OptionDetails& option);
  /// Null if there is no such option.
  [[nodiscard]] const OptionDetails* find(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> with_values_apart(const std::vector<std::string>& words) const;

  ProgramPage page_;
  std::vector<OptionDetails> all_;
  std::vector<std::string> positionals_;
  bool takes_more_ = false;
};

}  // namespace spmm::cli
