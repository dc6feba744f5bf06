#include "tools/batch/list/operand_uses.hpp"

namespace spmm::batch {

void OperandUses::add(const Job& job) {
  const std::string a = job.operand_a();
  const std::string b = job.operand_b();
  ++uses_[a];
  if (b != a) ++uses_[b];
}

void OperandUses::remove(const Job& job) {
  const std::string a = job.operand_a();
  const std::string b = job.operand_b();
  drop(a);
  if (b != a) drop(b);
}

void OperandUses::drop(const std::string& operand) {
  const auto found = uses_.find(operand);
  if (found != uses_.end() && --found->second == 0) uses_.erase(found);
}

std::size_t OperandUses::num_waiting(const std::string& operand) const {
  const auto found = uses_.find(operand);
  return found == uses_.end() ? 0 : found->second;
}

}  // namespace spmm::batch
