// Options declared and parsed, and numbers and words of the command line: the one source that includes cxxopts.
#include "cli/options.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cxxopts.hpp>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"
#include "spmm/multiply.hpp"

namespace spmm::cli {
namespace {

std::string in_quotes(const std::string& value) {
  return "\"" + value + "\"";
}

/// Options that are read from SPMM_BACKEND, SPMM_THREADS and SPMM_MEMORY_LIMIT if they are not typed.
bool is_variable(const std::string& option) {
  return option == "backend" || option == "threads" || option == "memory-limit";
}

/// "SPMM_MEMORY_LIMIT" for "memory-limit".
std::string variable_name(const std::string& option) {
  std::string name = "SPMM_";
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

constexpr std::uint64_t kMaxDevice = 1023;

/// Words of other programs, and what they are called here.
constexpr std::pair<const char*, const char*> kElsewhere[] = {
    {"gpu", "cuda"}, {"j", "threads"}, {"jobs", "threads"}, {"V", "version"}};

/// Letters to insert, remove, change or swap with the next one to make one word of the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(b.size() + 1);
  for (std::size_t y = 0; y <= b.size(); ++y) last[y] = y;
  for (std::size_t x = 1; x <= a.size(); ++x) {
    std::vector<std::size_t> row(b.size() + 1, x);
    for (std::size_t y = 1; y <= b.size(); ++y) {
      row[y] = std::min({last[y] + 1, row[y - 1] + 1, last[y - 1] + (a[x - 1] == b[y - 1] ? 0 : 1)});
      const bool is_swapped = x > 1 && y > 1 && a[x - 1] == b[y - 2] && a[x - 2] == b[y - 1];
      if (is_swapped) row[y] = std::min(row[y], before_last[y - 2] + 1);
    }
    before_last = std::move(last);
    last = std::move(row);
  }
  return last[b.size()];
}

/// A number that a text begins with, such as "12", "1_000", "1.5" or "33e6", and what follows it.
struct Number {
  long double value = 0;
  std::string rest;
};

std::optional<Number> read_number(const std::string& text) {
  const auto is_digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  if (!is_digit(0)) return std::nullopt;
  std::string plain;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const bool joins = std::string_view("_.eE").find(text[at]) != std::string_view::npos && is_digit(at + 1);
    if (!is_digit(at) && !joins) break;
    if (text[at] != '_') plain += text[at];
  }
  char* end = nullptr;
  const long double value = std::strtold(plain.c_str(), &end);
  if (*end != '\0') return std::nullopt;
  return Number{.value = value, .rest = text.substr(at)};
}

/// Nothing if it is not a whole number, but for what decimal fractions are rounded by, or does not fit 64 bits.
std::optional<std::uint64_t> whole(long double value) {
  const long double nearest = std::round(value);
  if (std::abs(value - nearest) > value * 1e-18L || nearest >= 0x1p64L) return std::nullopt;
  return static_cast<std::uint64_t>(nearest);
}

/// Bytes of a unit ("", "k", "MiB", ...); nothing if it is unknown.
std::optional<std::uint64_t> unit_bytes(std::string unit) {
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!unit.empty() && unit.back() == 'b') unit.pop_back();
  if (unit.empty()) return 1;
  const std::size_t power = std::string("kmgt").find(unit[0]);
  if (power == std::string::npos || unit.size() > 2 || (unit.size() == 2 && unit[1] != 'i')) return std::nullopt;
  std::uint64_t bytes = 1;
  for (std::size_t p = 0; p <= power; ++p) bytes *= unit.size() == 2 ? 1024 : 1000;
  return bytes;
}

}  // namespace

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

/// Errors: always UsageError.
void OptionTable::throw_unknown(const std::string& typed) const {
  const std::string hint = "see " + page_.program + " --help";
  const std::size_t dashes = std::min(typed.find_first_not_of('-'), typed.size());  // "---" has nothing else
  std::vector<std::string> names;
  for (const OptionDetails& option : page_.options) names.push_back(option.name);
  const std::string meant = suggestion(typed.substr(dashes), names, "--");
  throw UsageError(typed, "is not an option" + meant,
                   meant.empty() ? spmm::text("write ", page_.program, " ", page_.arguments, "; ", hint) : hint);
}

/// The words as the parser takes them. It knows options of one letter with one dash only: "--n 5" becomes "-n 5", and
/// "--n=5" "-n5". Without regular expressions it takes values behind a letter only if they are letters and digits:
/// "-k1.5e3" becomes "-k", "1.5e3". Errors: UsageError for what is no option.
std::vector<std::string> OptionTable::words_of(int argc, const char* const* argv) const {
  std::vector<std::string> given(argv, argv + argc);
  // "spmm help", unless a file has that name.
  if (argc == 2 && given[1] == "help" && ::access("help", F_OK) != 0) given[1] = "--help";
  if (argc == 3 && given[1] == "--help" && given[2] == "all") given = {given[0], "--help-all"};
  std::vector<std::string> words;
  bool is_value = true;  // as the program's name
  bool is_rest = false;
  for (std::string& word : given) {
    if (is_value || is_rest || word.size() < 2 || word[0] != '-') {
      words.push_back(word);
      is_value = false;
      continue;
    }
    std::string typed = word.substr(0, word.find('='));
    if (typed.size() == 3 && word[1] == '-' && std::isalpha(static_cast<unsigned char>(word[2])) != 0) {
      if (word.size() == 4) throw UsageError(typed, "has an empty value", "give a value after the =");
      word = typed.substr(1) + (word == typed ? "" : word.substr(4));
      typed = word.substr(0, word.find('='));
    }
    if (word[1] == '-') {
      is_rest = word == "--";
      const OptionDetails* const option = find(typed.substr(2));
      if (!is_rest && (option == nullptr || option->letter == typed.substr(2))) throw_unknown(typed);
      words.push_back(word);
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
      throw_unknown(is_letter && find(typed.substr(1)) == nullptr ? std::string{'-', word[letter]} : typed);
    }
    const bool has_value = !option->is_switch();
    const bool is_cut = has_value && letter + 1 < word.size();
    words.push_back(is_cut ? word.substr(0, letter + 1) : word);
    if (is_cut) words.push_back(word.substr(letter + 1));
    is_value = has_value && !is_cut;
  }
  return words;
}

ParsedOptions OptionTable::parse(int argc, const char* const* argv) const try {
  const std::string hint = "see " + page_.program + " --help";
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
  const std::vector<std::string> words = words_of(argc, argv);
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  const cxxopts::ParseResult found = parser.parse(static_cast<int>(pointers.size()), pointers.data());
  ParsedOptions parsed;
  parsed.more_ = found.unmatched();
  if (!takes_more_ && !parsed.more_.empty()) {
    throw UsageError("command line", "unexpected argument " + in_quotes(parsed.more_.front()), hint);
  }
  for (const OptionDetails& option : all_) {
    const auto& value = found[option.name];
    ParsedOptions::Entry entry{.count = found.count(option.name)};
    if (entry.count > 1) throw UsageError("--" + option.name, "is given more than once", hint);
    if (option.is_switch() && entry.count > 0) entry.text = value.as<bool>() ? "1" : "0";
    if (!option.is_switch() && (entry.count > 0 || value.has_default())) entry.text = value.as<std::string>();
    parsed.entries_.emplace(option.name, std::move(entry));
  }
  for (const OptionDetails& option : page_.options) {
    const std::string variable = variable_name(option.name);
    const char* const value = is_variable(option.name) ? nullptr : std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    warn(page_.program, spmm::text("the variable ", variable, " has no effect, give ", option.typed()));
  }
  return parsed;
} catch (const cxxopts::exceptions::exception& error) {
  throw UsageError("command line", error.what(), "see " + page_.program + " --help");
}

std::optional<OptionText> option_text(const ParsedOptions& parsed, const std::string& option) {
  const std::string typed = "--" + option;
  if (parsed.count(option) > 0) return OptionText{.value = parsed.text(option), .where = typed};
  const std::string name = variable_name(option);
  const char* value = is_variable(option) ? std::getenv(name.c_str()) : nullptr;
  if (value != nullptr && *value != '\0') return OptionText{.value = value, .where = name + " (environment)"};
  if (parsed.has_text(option)) return OptionText{.value = parsed.text(option), .where = typed};
  return std::nullopt;
}

bool option_flag(const ParsedOptions& parsed, const std::string& option) {
  return parsed.count(option) > 0 && parsed.text(option) == "1";
}

std::optional<std::uint64_t> option_bytes(const ParsedOptions& parsed, const std::string& option) {
  const auto found = option_text(parsed, option);
  if (!found) return std::nullopt;
  return parse_bytes(found->value, found->where);
}

std::optional<std::uint64_t> option_count(const ParsedOptions& parsed, const std::string& option, std::uint64_t low,
                                          std::uint64_t high) {
  const auto found = option_text(parsed, option);
  if (!found) return std::nullopt;
  return parse_count(found->value, found->where, low, high);
}

std::size_t parse_choice(const std::string& text, const std::string& where, const std::vector<std::string>& choices) {
  std::string list;
  for (std::size_t c = 0; c < choices.size(); ++c) {
    if (text == choices[c]) return c;
    list += (c == 0 ? "" : c + 1 == choices.size() ? " or " : ", ") + choices[c];
  }
  throw UsageError(where, in_quotes(text) + " is not known" + suggestion(text, choices), "give " + list);
}

std::size_t option_choice(const ParsedOptions& parsed, const std::string& option,
                          const std::vector<std::string>& choices) {
  const auto found = option_text(parsed, option);
  return found ? parse_choice(found->value, found->where, choices) : 0;
}

Backend backend_option(const ParsedOptions& parsed) {
  constexpr std::array kBackends = {Backend::automatic, Backend::cuda, Backend::cpu};
  const Backend backend = kBackends[option_choice(parsed, "backend", {"auto", "cuda", "cpu"})];
  if (backend == Backend::cuda && !has_backend(backend)) {
    throw DeviceError(
        option_text(parsed, "backend")->where, "is cuda, but this program was built without CUDA",
        "install CUDA 12 or newer and build it again (bash tools/scripts/demo.sh --cuda), or give --backend cpu");
  }
  return backend;
}

unsigned threads_option(const ParsedOptions& parsed) {
  constexpr std::uint64_t kMaxThreads = 4096;
  return static_cast<unsigned>(option_count(parsed, "threads", 0, kMaxThreads).value_or(0));
}

int device_option(const ParsedOptions& parsed) {
  const auto given = option_text(parsed, "device");
  if (!given || given->value == "auto" || given->value == "-1") return -1;
  return static_cast<int>(parse_count(given->value, given->where, 0, kMaxDevice));
}

std::vector<int> devices_option(const ParsedOptions& parsed) {
  const auto given = option_text(parsed, "devices");
  return given ? parse_devices(given->value, given->where) : std::vector<int>{};
}

std::optional<OptionText> file_option(const ParsedOptions& parsed, const std::string& option) {
  auto given = option_text(parsed, option);
  if (given && given->value.empty()) throw UsageError(given->where, "the file name is empty", "name a file");
  return given;
}

void check_dash(const std::string& path, const std::string& what, Dash dash) {
  if (path != "-" || dash == Dash::allowed) return;
  if (dash == Dash::refused_input) {
    throw UsageError("command line",
                     "the " + what + " is -, but standard input will not do: it is read by position, more than once",
                     "store it in a file first (cat > /dev/shm/a.bin), or give ./- for a file of that name");
  }
  throw UsageError("command line", "the " + what + " is -, but standard output will not do: the header is written last",
                   "name a file (/dev/shm/c.bin, then cat it), or give ./- for a file of that name");
}

std::string required_positional(const ParsedOptions& parsed, const std::string& name, const std::string& what,
                                Dash dash) {
  if (parsed.count(name) == 0 || parsed.text(name).empty()) {
    throw UsageError("command line", "the " + what + " is missing", "give its path; --help shows examples");
  }
  check_dash(parsed.text(name), what, dash);
  return parsed.text(name);
}

std::uint64_t parse_bytes(const std::string& text, const std::string& where) {
  const auto number = read_number(text);
  const auto unit = number ? unit_bytes(number->rest) : std::nullopt;
  const auto value = unit ? whole(number->value * static_cast<long double>(*unit)) : std::nullopt;
  if (value) return *value;
  throw UsageError(where, in_quotes(text) + " is not a number of bytes from 0 to 2^64 - 1",
                   "write it like 8G, 512M, 2GiB or 1e9");
}

std::uint64_t parse_count(const std::string& text, const std::string& where, std::uint64_t low, std::uint64_t high) {
  const auto number = read_number(text);
  const auto value = number && number->rest.empty() ? whole(number->value) : std::nullopt;
  if (!value || *value < low || *value > high) {
    const std::string most = high == UINT64_MAX ? "2^64 - 1" : spmm::text(high);
    throw UsageError(where, spmm::text(in_quotes(text), " is not a whole number from ", low, " to ", most),
                     "write it like 12, 33e6 or 33_000_000");
  }
  return *value;
}

std::uint64_t parse_verify(const std::string& text, const std::string& where) {
  if (text == "full") return kVerifyFull;
  if (const auto number = read_number(text); number && number->rest.empty()) {
    return parse_count(text, where, 0, kVerifyFull - 1);
  }
  throw UsageError(where, in_quotes(text) + " is not known" + suggestion(text, {"full"}),
                   "give full or a number of blocks");
}

std::vector<int> parse_devices(const std::string& text, const std::string& where) {
  if (text == "auto") return {};
  if (text == "all") return {kAllDevices};
  std::vector<int> devices;
  std::istringstream numbers(text + ",");
  for (std::string number; std::getline(numbers, number, ',');) {
    devices.push_back(static_cast<int>(parse_count(number, where, 0, kMaxDevice)));
  }
  return devices;
}

RowRange parse_rows(const std::string& text, const std::string& where) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) {
    throw UsageError(where, in_quotes(text) + " is not a range of block rows",
                     "write it like 0:1000, the first row and the one behind the last");
  }
  RowRange rows;
  const auto number = [&](const std::string& typed, std::uint32_t otherwise) {
    return typed.empty() ? otherwise : static_cast<std::uint32_t>(parse_count(typed, where, 0, UINT32_MAX));
  };
  rows.first = number(text.substr(0, colon), rows.first);
  rows.end = number(text.substr(colon + 1), rows.end);
  if (rows.first <= rows.end) return rows;
  throw UsageError(where, in_quotes(text) + " ends before it begins", "write the smaller row first");
}

std::string nearest_word(const std::string& word, const std::vector<std::string>& known) {
  for (const auto& [elsewhere, here] : kElsewhere) {
    if (word == elsewhere && std::find(known.begin(), known.end(), here) != known.end()) return here;
  }
  constexpr std::size_t kLeastStart = 3;
  std::string best;
  std::size_t best_distance = 0;
  std::vector<std::string> longer;
  for (const std::string& one : known) {
    if (word.size() >= kLeastStart && one.starts_with(word)) longer.push_back(one);
    const std::size_t distance = edit_distance(word, one);
    if (3 * distance > one.size() || (!best.empty() && distance >= best_distance)) continue;
    best = one;
    best_distance = distance;
  }
  return longer.size() == 1 ? longer.front() : best;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known, const std::string& prefix) {
  const std::string nearest = nearest_word(word, known);
  return nearest.empty() ? "" : ", did you mean " + prefix + nearest + "?";
}

}  // namespace spmm::cli
