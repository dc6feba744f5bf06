#include "cpu/cpu_backend.hpp"

#include "base/text.hpp"
#include "cpu/isa.hpp"
#include "cpu/reference.hpp"
#include "cpu/row_merge.hpp"
#include "spmm/error.hpp"

namespace spmm::cpu {
namespace {

constexpr const char* kReference = "reference";
constexpr const char* kRowMerge = "row-merge";

}  // namespace

std::string instruction_set() {
  return std::string(isa_name(choose_isa()));
}

std::uint64_t need_bytes(const MatrixHeader& a, const MatrixHeader& b, const Plan& plan) {
  return plan.kernel == kReference ? reference_bytes(a, b, plan) : row_merge_bytes(a, b, plan);
}

ProductStats multiply(const Source& a, const Source& b, Sink& sink, const Plan& plan, const RunContext& context) {
  if (plan.kernel == kReference) return multiply_reference(a, b, sink, plan, context);
  if (plan.kernel == kRowMerge) return multiply_row_merge(a, b, sink, plan, context);
  throw UsageError("--kernel", text("the CPU has no kernel '", plan.kernel, "'"),
                   text("use ", kReference, " or ", kRowMerge));
}

}  // namespace spmm::cpu
