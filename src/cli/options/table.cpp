// Options declared and parsed: the one source that includes cxxopts.
#include "cli/options/table.hpp"

#include <algorithm>
#include <cctype>
#include <cxxopts.hpp>
#include <utility>

namespace spmm::cli {

struct OptionTable::Parser {
  cxxopts::Options options;
  std::vector<std::pair<std::string, bool>> declared{};  ///< all names, and whether they take a value
  std::string letters{};                                 ///< of switches that have a name, too

  [[nodiscard]] bool is_declared(const std::string& name, bool takes_value) const {
    return std::find(declared.begin(), declared.end(), std::pair(name, takes_value)) != declared.end();
  }
  [[nodiscard]] bool takes_value(const std::string& name) const { return is_declared(name, true); }
  [[nodiscard]] bool is_known(const std::string& name) const { return takes_value(name) || is_declared(name, false); }
  [[nodiscard]] bool is_switch(char letter) const {
    return letters.find(letter) != std::string::npos || is_declared(std::string(1, letter), false);
  }
  [[nodiscard]] std::vector<std::string> with_values_apart(const std::vector<std::string>& words) const;
};

/// Without regular expressions cxxopts takes values behind a letter only if they are letters and digits: "-k1.5e3"
/// becomes "-k", "1.5e3". Errors: UnknownOption.
std::vector<std::string> OptionTable::Parser::with_values_apart(const std::vector<std::string>& words) const {
  std::vector<std::string> apart;
  bool is_value = true;  // as the program's name
  bool is_rest = false;
  for (const std::string& word : words) {
    if (is_value || is_rest || word.size() < 2 || word[0] != '-') {
      apart.push_back(word);
      is_value = false;
      continue;
    }
    const std::string typed = word.substr(0, word.find('='));
    if (word[1] == '-') {
      is_rest = word == "--";
      if (typed.size() > 2 && !is_known(typed.substr(2))) throw UnknownOption(typed);
      apart.push_back(word);
      is_value = takes_value(word.substr(2));
      continue;
    }
    std::size_t letter = 1;
    while (letter < typed.size() && is_switch(word[letter])) ++letter;
    const bool has_value = letter < typed.size() && takes_value(word.substr(letter, 1));
    if (letter < typed.size() && !has_value) {
      const bool is_letter = std::isalnum(static_cast<unsigned char>(word[letter])) != 0;
      throw UnknownOption(is_letter && !is_known(typed.substr(1)) ? std::string{'-', word[letter]} : typed);
    }
    const bool is_cut = has_value && letter + 1 < word.size();
    apart.push_back(is_cut ? word.substr(0, letter + 1) : word);
    if (is_cut) apart.push_back(word.substr(letter + 1));
    is_value = has_value && !is_cut;
  }
  return apart;
}

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
  parser_->letters += option.letter;
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

void OptionTable::show_only(const std::vector<std::string>& names) {
  std::erase_if(page_.options, [&](const OptionDetails& option) {
    return std::find(names.begin(), names.end(), option.name) == names.end();
  });
}

void OptionTable::parse_positional(const std::vector<std::string>& names) {
  parser_->options.parse_positional(names);
}

ParsedOptions OptionTable::parse(const std::vector<std::string>& words) try {
  const std::vector<std::string> apart = parser_->with_values_apart(words);
  std::vector<const char*> pointers;
  for (const std::string& word : apart) pointers.push_back(word.c_str());
  const cxxopts::ParseResult found = parser_->options.parse(static_cast<int>(pointers.size()), pointers.data());
  ParsedOptions parsed;
  if (takes_more_) {
    parsed.more_ = found.unmatched();
  } else if (!found.unmatched().empty()) {
    parsed.unexpected_ = found.unmatched().front();
  }
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
} catch (const cxxopts::exceptions::exception& error) {
  throw OptionError(error.what());
}

}  // namespace spmm::cli
