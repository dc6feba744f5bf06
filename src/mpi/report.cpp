// What ranks did, gathered.
#include "mpi/report.hpp"

#include <algorithm>

namespace spmm::mpi {

void add_ranks(const Communicator& ranks, const RankReport& rank, const Report& own, DistributedReport& all) {
  for (const Bytes& bytes : ranks.gather(encode(rank))) {
    all.ranks.push_back(decode(bytes));
    all.whole.peak_host_bytes = std::max(all.whole.peak_host_bytes, all.ranks.back().peak_host_bytes);
    all.whole.peak_device_bytes = std::max(all.whole.peak_device_bytes, all.ranks.back().peak_device_bytes);
  }
  all.whole.num_panels = ranks.sum(own.num_panels);
  all.whole.verified_blocks = ranks.sum(own.verified_blocks);
  for (const RankReport& one : all.ranks) {  // the first that had something to do speaks for all
    if (one.backend.empty()) continue;
    all.whole.device = one.device;
    all.whole.plan.kernel = one.kernel;
    all.whole.plan.backend = one.backend == backend_name(Backend::cuda) ? Backend::cuda : Backend::cpu;
    break;
  }
}

}  // namespace spmm::mpi
