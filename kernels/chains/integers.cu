// Chains of integers, modulo 2^64; those of u16 saturate.
#include "kernels/chains/multiply.cuh"

namespace spmm::kernels {

template void multiply_chains<std::uint16_t>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<std::int8_t>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<std::uint8_t>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<std::int16_t>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<std::int32_t>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<std::uint32_t>(const ChainsView&, const ChainValues&, cudaStream_t);
template void multiply_chains<std::int64_t>(const ChainsView&, const ChainValues&, cudaStream_t);

}  // namespace spmm::kernels
