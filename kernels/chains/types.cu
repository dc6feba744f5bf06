// From the type of elements, known at run time, to the compiled chains.
#include "kernels/chains/launch.hpp"

namespace spmm::kernels {

void launch_multiply_chains(ElementType type, const ChainsView& chains, const ChainValues& values,
                            cudaStream_t stream) {
  if (chains.num_c_blocks == 0) return;
  with_element_type(type, [&]<class T>() { multiply_chains<T>(chains, values, stream); });
}

}  // namespace spmm::kernels
