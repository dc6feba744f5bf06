// Runs prepared dense kernels and reports their resources.
#include "kernels/check.hpp"
#include "kernels/dense/launch.hpp"
#include "kernels/resident.hpp"

namespace spmm::kernels {

void launch_dense(const DenseLaunch& launch, DenseShape shape, const void* a, const void* b, void* c,
                  cudaStream_t stream) {
  if (launch.num_ctas == 0) return;
  void* arguments[] = {&shape, &a, &b, &c};
  check(cudaLaunchKernel(launch.function, dim3(launch.num_ctas), dim3(launch.threads_x, launch.threads_y), arguments, 0,
                         stream),
        "dense kernel");
}

DenseResources dense_resources(const DenseLaunch& launch) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, launch.function), "dense kernel attributes");
  int num_ctas = 0;
  const unsigned threads = launch.threads_x * launch.threads_y;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&num_ctas, launch.function, static_cast<int>(threads), 0),
        "dense kernel occupancy");
  const unsigned resident = (threads + 31) / 32 * 32 * static_cast<unsigned>(num_ctas);
  return {.threads_per_cta = threads,
          .registers_per_thread = static_cast<unsigned>(attributes.numRegs),
          .shared_bytes_per_cta = attributes.sharedSizeBytes,
          .ctas_per_multiprocessor = static_cast<unsigned>(num_ctas),
          .occupancy = static_cast<double>(resident) / device_attribute(cudaDevAttrMaxThreadsPerMultiProcessor)};
}

}  // namespace spmm::kernels
