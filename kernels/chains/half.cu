// Chains of f16 and bf16, in f32.
#include "kernels/chains/multiply.cuh"

namespace spmm::kernels {

template void multiply_chains<Half>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<BFloat16>(const ChainsView&, const ChainValues&, cudaStream_t);

}  // namespace spmm::kernels
