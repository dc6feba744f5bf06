// Matrix files read front to back.
#include "tools/common/matrix_file.hpp"

#include <algorithm>
#include <exception>

#include "cli/options/table.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {

MatrixFile open_matrix(const std::filesystem::path& path, std::optional<ElementType> type, ElementType likely) {
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

std::uint64_t records_per_read(std::uint64_t record) {
  return std::max<std::uint64_t>(1, kReadBytes / record);
}

}  // namespace spmm::tools
