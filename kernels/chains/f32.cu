// Chains of f32.
#include "kernels/chains/multiply.cuh"

namespace spmm::kernels {

template void multiply_chains<float>(const ChainsView&, const ChainValues&, cudaStream_t);

}  // namespace spmm::kernels
