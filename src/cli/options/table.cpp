// Options declared and parsed: the one source that includes cxxopts.
#include "cli/options/table.hpp"

#include <algorithm>
#include <cctype>
#include <cxxopts.hpp>
#include <utility>

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

void OptionTable::declare(const OptionDetails& option) {
  all_.push_back(option);
  if (option.group != "hidden" && option.group != "positional") page_.options.push_back(option);
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
                   .argument = argument,
                   .otherwise = value.otherwise});
  return *this;
}

void OptionTable::show_only(const std::vector<std::string>& names) {
  std::erase_if(page_.options, [&](const OptionDetails& option) {
    return std::find(names.begin(), names.end(), option.name) == names.end();
  });
}

const OptionDetails* OptionTable::find(const std::string& name) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const OptionDetails& option) {
    return option.name == name || (!option.letter.empty() && option.letter == name);
  });
  return found == all_.end() ? nullptr : &*found;
}

/// Without regular expressions cxxopts takes values behind a letter only if they are letters and digits: "-k1.5e3"
/// becomes "-k", "1.5e3". Errors: UnknownOption.
std::vector<std::string> OptionTable::with_values_apart(const std::vector<std::string>& words) const {
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
      const OptionDetails* const option = find(typed.substr(2));
      if (!is_rest && (option == nullptr || option->letter == typed.substr(2))) throw UnknownOption(typed);
      apart.push_back(word);
      is_value = !is_rest && !option->is_switch() && typed == word;
      continue;
    }
    const OptionDetails* option = nullptr;
    std::size_t letter = 1;
    for (; letter < typed.size(); ++letter) {
      option = find(word.substr(letter, 1));
      if (option == nullptr || !option->is_switch()) break;
    }
    if (option == nullptr) {
      const bool is_letter = std::isalnum(static_cast<unsigned char>(word[letter])) != 0;
      throw UnknownOption(is_letter && find(typed.substr(1)) == nullptr ? std::string{'-', word[letter]} : typed);
    }
    const bool has_value = !option->is_switch();
    const bool is_cut = has_value && letter + 1 < word.size();
    apart.push_back(is_cut ? word.substr(0, letter + 1) : word);
    if (is_cut) apart.push_back(word.substr(letter + 1));
    is_value = has_value && !is_cut;
  }
  return apart;
}

ParsedOptions OptionTable::parse(const std::vector<std::string>& words) const try {
  cxxopts::Options parser(page_.program);
  for (const OptionDetails& option : all_) {
    const std::string names = option.letter.empty() ? option.name : option.letter + "," + option.name;
    if (option.is_switch()) {
      parser.add_options()(names, "");
    } else {
      const auto typed = cxxopts::value<std::string>();
      if (option.otherwise) typed->default_value(*option.otherwise);
      parser.add_options()(names, "", typed);
    }
  }
  parser.parse_positional(positionals_);
  const std::vector<std::string> apart = with_values_apart(words);
  std::vector<const char*> pointers;
  for (const std::string& word : apart) pointers.push_back(word.c_str());
  const cxxopts::ParseResult found = parser.parse(static_cast<int>(pointers.size()), pointers.data());
  ParsedOptions parsed;
  if (takes_more_) {
    parsed.more_ = found.unmatched();
  } else if (!found.unmatched().empty()) {
    parsed.unexpected_ = found.unmatched().front();
  }
  for (const OptionDetails& option : all_) {
    const auto& value = found[option.name];
    ParsedOptions::Entry entry{.count = found.count(option.name)};
    if (entry.count > 1 && parsed.repeated_.empty()) parsed.repeated_ = option.name;
    if (option.is_switch() && entry.count > 0) entry.text = value.as<bool>() ? "1" : "0";
    if (!option.is_switch() && (entry.count > 0 || value.has_default())) entry.text = value.as<std::string>();
    parsed.entries_.emplace(option.name, std::move(entry));
  }
  return parsed;
} catch (const cxxopts::exceptions::exception& error) {
  throw OptionError(error.what());
}

}  // namespace spmm::cli
