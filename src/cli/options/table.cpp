// Options declared and parsed: the one source that includes cxxopts.
#include "cli/options/table.hpp"

#include <cxxopts.hpp>
#include <utility>

namespace spmm::cli {

struct OptionTable::Parser {
  cxxopts::Options options;
  std::vector<std::pair<std::string, bool>> declared{};  ///< all names, and whether they take a value
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
    : parser_(new Parser{.options = cxxopts::Options(program, description)}),
      page_{.program = program, .description = description} {}
OptionTable::~OptionTable() = default;
OptionTable::OptionTable(OptionTable&&) noexcept = default;
OptionTable& OptionTable::operator=(OptionTable&&) noexcept = default;

void OptionTable::declare(OptionDetails option, bool takes_value) {
  parser_->declared.emplace_back(option.name, takes_value);
  if (option.group != "hidden" && option.group != "positional") page_.options.push_back(std::move(option));
}

OptionTable::Adder& OptionTable::Adder::operator()(const std::string& names, const std::string& description) {
  table_->parser_->options.add_options()(names, description);
  const std::size_t comma = names.find(',');
  table_->declare({.group = group_,
                   .letter = comma == std::string::npos ? "" : names.substr(0, comma),
                   .name = names.substr(comma + 1),
                   .description = description},
                  false);
  return *this;
}

OptionTable::Adder& OptionTable::Adder::operator()(const std::string& name, const std::string& description,
                                                   const OptionValue& value, const std::string& argument) {
  const auto typed = cxxopts::value<std::string>();
  if (value.otherwise) typed->default_value(*value.otherwise);
  table_->parser_->options.add_options()(name, description, typed);
  table_->declare({.group = group_,
                   .letter = "",
                   .name = name,
                   .description = description,
                   .argument = argument.empty() ? "VALUE" : argument,
                   .otherwise = value.otherwise},
                  true);
  return *this;
}

void OptionTable::parse_positional(const std::vector<std::string>& names) {
  parser_->options.parse_positional(names);
}

ParsedOptions OptionTable::parse(const std::vector<std::string>& words) try {
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  const cxxopts::ParseResult found = parser_->options.parse(static_cast<int>(pointers.size()), pointers.data());
  ParsedOptions parsed;
  if (!found.unmatched().empty()) parsed.unexpected_ = found.unmatched().front();
  for (const auto& [name, takes_value] : parser_->declared) {
    ParsedOptions::Entry entry{.count = found.count(name)};
    if (entry.count > 1 && parsed.repeated_.empty()) parsed.repeated_ = name;
    if (takes_value && (entry.count > 0 || found[name].has_default())) {
      entry.text = found[name].as<std::string>();
    } else if (!takes_value && entry.count > 0) {
      entry.text = found[name].as<bool>() ? "1" : "0";
    }
    parsed.entries_.emplace(name, std::move(entry));
  }
  return parsed;
} catch (const cxxopts::exceptions::no_such_option& error) {
  throw UnknownOption(error.what());
} catch (const cxxopts::exceptions::exception& error) {
  throw OptionError(error.what());
}

}  // namespace spmm::cli
