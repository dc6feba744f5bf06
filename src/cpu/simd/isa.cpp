#include "cpu/simd/isa.hpp"

#include <array>
#include <cstdlib>
#include <string>

#include "base/text.hpp"
#include "cpu/simd/kernels.hpp"
#include "spmm/error.hpp"

namespace spmm::cpu {
namespace {

constexpr std::array<Isa, 3> kAll = {Isa::avx512_vnni, Isa::avx2, Isa::portable};

bool is_available(Isa isa) {
  switch (isa) {
    case Isa::avx512_vnni:
      return avx512_vnni_available();
    case Isa::avx2:
      return avx2_available();
    case Isa::portable:
      return true;
  }
  return false;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx512_vnni:
      return "avx512-vnni";
    case Isa::avx2:
      return "avx2";
    case Isa::portable:
      break;
  }
  return "portable";
}

Isa choose_isa() {
  const char* forced = std::getenv("SPMM_CPU_ISA");
  std::string names;
  for (const Isa isa : kAll) {
    if (!is_available(isa)) continue;
    if (forced == nullptr || *forced == '\0' || isa_name(isa) == forced) return isa;
    names += text(names.empty() ? "" : ", ", isa_name(isa));
  }
  throw UsageError("SPMM_CPU_ISA", text("'", forced, "' is unknown or not available on this machine"),
                   "unset it, or use one of: " + names);
}

}  // namespace spmm::cpu
