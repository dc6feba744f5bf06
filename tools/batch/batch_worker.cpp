#include "tools/batch/batch_worker.hpp"

#include "spmm/multiply.hpp"

namespace spmm::batch {

Report ProductRunner::multiply(const JobOrder& order, const std::atomic<bool>& cancel) {
  Options options;
  options.backend = kind_ == WorkerKind::gpu ? Backend::cuda : Backend::cpu;
  options.kernel = order.job.options.kernel;
  options.num_threads = order.num_threads;
  options.memory_limit_bytes = order.memory_limit_bytes;
  options.durable = order.job.options.durable;
  options.no_clobber = order.job.options.no_clobber;
  options.verify_blocks = order.job.options.verify_blocks;
  options.cancel = &cancel;
  return spmm::multiply(order.job.a, order.job.b, order.job.out, options);
}

}  // namespace spmm::batch
