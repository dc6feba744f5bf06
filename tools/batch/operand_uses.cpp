#include "tools/batch/operand_uses.hpp"

namespace spmm::batch {

void OperandUses::add(const Job& job) {
  ++uses_[job.a];
  if (job.b != job.a) ++uses_[job.b];
}

void OperandUses::remove(const Job& job) {
  drop(job.a);
  if (job.b != job.a) drop(job.b);
}

void OperandUses::drop(const std::string& path) {
  const auto found = uses_.find(path);
  if (found != uses_.end() && --found->second == 0) uses_.erase(found);
}

std::size_t OperandUses::num_waiting(const std::string& path) const {
  const auto found = uses_.find(path);
  return found == uses_.end() ? 0 : found->second;
}

}  // namespace spmm::batch
