// Options declared and parsed: the one source that includes cxxopts.
#include "cli/options/table.hpp"

#include <cxxopts.hpp>
#include <utility>

namespace spmm::cli {
namespace {

// cxxopts 3.1 has a list of long names where older ones have one.
[[maybe_unused]] std::string long_name(const std::string& name) {
  return name;
}
[[maybe_unused]] std::string long_name(const std::vector<std::string>& names) {
  return names.empty() ? "" : names.front();
}

}  // namespace

struct OptionTable::Parser {
  struct Declared {
    std::string name;  ///< the long one, where there is one
    bool takes_value;
  };
  cxxopts::Options options;
  std::vector<Declared> declared{};
};

std::size_t ParsedOptions::count(const std::string& option) const {
  const auto found = entries_.find(option);
  return found == entries_.end() ? 0 : found->second.count;
}

bool ParsedOptions::has_text(const std::string& option) const {
  const auto found = entries_.find(option);
  return found != entries_.end() && found->second.text.has_value();
}

const std::string& ParsedOptions::text(const std::string& option) const {
  if (!has_text(option)) throw std::out_of_range("option " + option + " has no value");
  return *entries_.at(option).text;
}

OptionTable::OptionTable(const std::string& program, const std::string& description)
    : parser_(new Parser{.options = cxxopts::Options(program, description)}) {}
OptionTable::~OptionTable() = default;
OptionTable::OptionTable(OptionTable&&) noexcept = default;
OptionTable& OptionTable::operator=(OptionTable&&) noexcept = default;

OptionTable& OptionTable::custom_help(const std::string& words) {
  parser_->options.custom_help(words);
  return *this;
}

OptionTable& OptionTable::positional_help(const std::string& words) {
  parser_->options.positional_help(words);
  return *this;
}

OptionTable& OptionTable::set_width(std::size_t width) {
  parser_->options.set_width(width);
  return *this;
}

OptionTable::Adder& OptionTable::Adder::operator()(const std::string& names, const std::string& description) {
  table_->parser_->options.add_options(group_)(names, description);
  table_->parser_->declared.push_back({.name = names.substr(names.find(',') + 1), .takes_value = false});
  return *this;
}

OptionTable::Adder& OptionTable::Adder::operator()(const std::string& names, const std::string& description,
                                                   const OptionValue& value, const std::string& argument) {
  const auto typed = cxxopts::value<std::string>();
  if (value.otherwise) typed->default_value(*value.otherwise);
  table_->parser_->options.add_options(group_)(names, description, typed, argument);
  table_->parser_->declared.push_back({.name = names.substr(names.find(',') + 1), .takes_value = true});
  return *this;
}

void OptionTable::parse_positional(const std::vector<std::string>& names) {
  parser_->options.parse_positional(names);
}

const std::string& OptionTable::program() const {
  return parser_->options.program();
}

std::string OptionTable::help(const std::vector<std::string>& groups) const {
  return parser_->options.help(groups);
}

std::vector<std::string> OptionTable::groups() const {
  return parser_->options.groups();
}

std::vector<OptionDetails> OptionTable::options_of(const std::string& group) const {
  std::vector<OptionDetails> all;
  for (const cxxopts::HelpOptionDetails& one : parser_->options.group_help(group).options) {
    all.push_back({.letter = one.s,
                   .name = long_name(one.l),
                   .description = one.desc,
                   .argument = one.arg_help,
                   .is_switch = one.is_boolean});
  }
  return all;
}

ParsedOptions OptionTable::parse(const std::vector<std::string>& words) try {
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  const cxxopts::ParseResult found = parser_->options.parse(static_cast<int>(pointers.size()), pointers.data());
  ParsedOptions parsed;
  if (!found.unmatched().empty()) parsed.unexpected_ = found.unmatched().front();
  for (const Parser::Declared& one : parser_->declared) {
    ParsedOptions::Entry entry{.count = found.count(one.name)};
    if (entry.count > 1 && parsed.repeated_.empty()) parsed.repeated_ = one.name;
    if (one.takes_value && (entry.count > 0 || found[one.name].has_default())) {
      entry.text = found[one.name].as<std::string>();
    } else if (!one.takes_value && entry.count > 0) {
      entry.text = found[one.name].as<bool>() ? "1" : "0";
    }
    parsed.entries_.emplace(one.name, std::move(entry));
  }
  return parsed;
} catch (const cxxopts::exceptions::no_such_option& error) {
  throw UnknownOption(error.what());
} catch (const cxxopts::exceptions::exception& error) {
  throw OptionError(error.what());
}

}  // namespace spmm::cli
