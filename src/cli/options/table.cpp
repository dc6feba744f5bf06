// Options declared and parsed.
#include "cli/options/table.hpp"

#include <algorithm>

namespace spmm::cli {

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

OptionTable::Adder& OptionTable::Adder::operator()(const std::string& names, const std::string& description) {
  const std::size_t comma = names.find(',');
  table_->declare({.group = group_,
                   .letter = comma == std::string::npos ? "" : names.substr(0, comma),
                   .name = names.substr(comma + 1),
                   .description = description});
  return *this;
}

OptionTable::Adder& OptionTable::Adder::operator()(const std::string& name, const std::string& description,
                                                   const OptionValue& value, const std::string& argument) {
  table_->declare({.group = group_,
                   .letter = "",
                   .name = name,
                   .description = description,
                   .argument = argument.empty() ? "VALUE" : argument,
                   .otherwise = value.otherwise});
  return *this;
}

void OptionTable::declare(const OptionDetails& option) {
  declared_.push_back(option);
  if (option.group != "hidden" && option.group != "positional") page_.options.push_back(option);
}

ParsedOptions OptionTable::parse(const std::vector<std::string>& words) const {
  ParsedOptions parsed;
  const auto find = [&](const std::string& name) -> const OptionDetails& {
    for (const OptionDetails& option : declared_) {
      if (!name.empty() && (name == option.name || name == option.letter)) return option;
    }
    throw UnknownOption((name.size() == 1 ? "-" : "--") + name + ": is not an option");
  };
  std::size_t w = 1;
  const auto set = [&](const OptionDetails& option, const std::optional<std::string>& value) {
    ParsedOptions::Entry& entry = parsed.entries_[option.name];
    if (++entry.count > 1 && parsed.repeated_.empty()) parsed.repeated_ = option.name;
    if (option.is_switch() && value) {
      throw OptionError(option.typed() + ": takes no value, found \"" + *value + "\"");
    }
    if (!option.is_switch() && !value && w + 1 == words.size()) throw OptionError(option.typed() + ": has no value");
    entry.text = option.is_switch() ? "1" : value ? *value : words[++w];
  };
  std::size_t num_positional = 0;
  bool is_rest = false;
  for (; w < words.size(); ++w) {
    const std::string& word = words[w];
    if (is_rest || word.size() < 2 || word[0] != '-') {
      if (num_positional < positional_.size()) {
        parsed.entries_[positional_[num_positional++]] = {.count = 1, .text = word};
      } else if (takes_more_) {
        parsed.more_.push_back(word);
      } else if (parsed.unexpected_.empty()) {
        parsed.unexpected_ = word;
      }
    } else if (word == "--") {
      is_rest = true;
    } else if (word[1] == '-') {  // "--name", "--name=value"
      const std::size_t equals = std::min(word.find('='), word.size());
      const OptionDetails& option = find(word.substr(2, equals - 2));
      set(option, equals == word.size() ? std::nullopt : std::optional(word.substr(equals + 1)));
    } else {  // "-q", "-qv", "-n5"
      for (std::size_t letter = 1; letter < word.size(); ++letter) {
        const OptionDetails& option = find(word.substr(letter, 1));
        const bool has_value = !option.is_switch() && letter + 1 < word.size();
        set(option, has_value ? std::optional(word.substr(letter + 1)) : std::nullopt);
        if (!option.is_switch()) break;
      }
    }
  }
  for (const OptionDetails& option : declared_) {
    ParsedOptions::Entry& entry = parsed.entries_[option.name];
    if (!entry.text) entry.text = option.otherwise;
  }
  return parsed;
}

}  // namespace spmm::cli
