#include "tools/convert/array_elements.hpp"

#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

template <class T>
void put_as(std::byte* dst, std::span<const std::uint32_t> values) {
  for (std::size_t v = 0; v < values.size(); ++v) {
    const auto value = static_cast<T>(values[v]);
    std::memcpy(dst + v * sizeof value, &value, sizeof value);
  }
}

}  // namespace

std::size_t ArrayElements::item_bytes() const {
  return type == ArrayType::uint16 ? 2 : type == ArrayType::uint32 ? 4 : 8;
}

const char* ArrayElements::descr() const {
  constexpr const char* kDescriptions[] = {"<i8", "<u4", "<u2", "<f8"};
  return kDescriptions[static_cast<std::size_t>(type)];
}

void ArrayElements::put(std::byte* dst, std::span<const std::uint32_t> values) const {
  switch (type) {
    case ArrayType::int64:
      return put_as<std::int64_t>(dst, values);
    case ArrayType::uint32:
      return put_as<std::uint32_t>(dst, values);
    case ArrayType::uint16:
      for (const std::uint32_t value : values) {
        if (value > UINT16_MAX) {
          throw FormatError(name, text("holds ", value, ", more than uint16 can hold"), "give --dtype uint32 or int64");
        }
      }
      return put_as<std::uint16_t>(dst, values);
    case ArrayType::float64:
      for (std::size_t v = 0; v < values.size(); ++v) {
        const double value = values[v] * scale;
        std::memcpy(dst + v * sizeof value, &value, sizeof value);
      }
  }
}

}  // namespace spmm::tools
