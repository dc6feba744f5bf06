#include "tools/common/matrix_file.hpp"

#include <algorithm>
#include <exception>
#include <system_error>

#include "base/text.hpp"
#include "cli/option_table.hpp"
#include "spmm/error.hpp"
#include "spmm/saturate.hpp"

namespace spmm::tools {

MatrixFile open_matrix(const std::filesystem::path& path, std::optional<ElementType> type, ElementType likely) {
  std::error_code ignored;                                                             // opening says what is wrong
  if (!type && std::filesystem::is_directory(path, ignored)) type = ElementType::u32;  // only results come in parts
  if (type) return {.file = io::InputFile(path, *type), .type = *type};
  std::exception_ptr complaint;
  for (const ElementType guess : {ElementType::u16, ElementType::u32}) {
    try {
      return {.file = io::InputFile(path, guess), .type = guess};
    } catch (const FormatError&) {
      if (guess == likely) complaint = std::current_exception();
    }
  }
  std::rethrow_exception(complaint);
}

std::optional<ElementType> type_option(const cli::ParsedOptions& parsed) {
  constexpr std::optional<ElementType> kTypes[] = {std::nullopt, ElementType::u16, ElementType::u32};
  return kTypes[cli::option_choice(parsed, "type", {"auto", "u16", "u32"})];
}

const char* type_name(ElementType type) {
  return type == ElementType::u16 ? "u16" : "u32";
}

std::uint64_t count_saturated(std::span<const std::byte> records) {
  std::uint64_t count = 0;
  for (std::size_t at = 0; at + sizeof kMaxVal <= records.size(); at += sizeof kMaxVal) {
    std::uint32_t value = 0;
    std::memcpy(&value, records.data() + at, sizeof value);
    count += value == kMaxVal ? 1 : 0;
  }
  return count;
}

std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string saturated_text(std::uint64_t count) {
  return text(grouped(count), count == 1 ? " element" : " elements", " at the limit ", kMaxVal);
}

std::uint64_t records_per_read(std::uint64_t record) {
  return std::max<std::uint64_t>(1, kReadBytes / record);
}

}  // namespace spmm::tools
