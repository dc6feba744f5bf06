#include "tools/batch/worker/worker.hpp"

namespace spmm::batch {

Report ProductRunner::multiply(const JobOrder& order, const std::atomic<bool>& cancel) {
  ProductOptions options;
  options.backend = kind_ == WorkerKind::gpu ? Backend::cuda : Backend::cpu;
  options.kernel = order.job.options.kernel;
  options.max_threads = order.num_threads;
  options.transpose_a = order.job.options.transpose_a;
  options.transpose_b = order.job.options.transpose_b;
  options.durable = order.job.options.durable;
  options.no_clobber = order.job.options.no_clobber;
  options.verify_full = order.job.options.verify_blocks == kVerifyFull;
  options.verify_blocks = options.verify_full ? 0 : order.job.options.verify_blocks;
  options.on_saturation = order.job.options.on_saturation;
  options.keep_a = order.keep_a;
  options.keep_b = order.keep_b;
  options.cancel = &cancel;
  return engine_.multiply(order.job.a, order.job.b, order.job.out, options);
}

}  // namespace spmm::batch
