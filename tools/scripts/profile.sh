#!/usr/bin/env bash
# Runs a spmm command under a profiler of NVIDIA's; reports are written below build/profile/.
#   bash tools/scripts/profile.sh nsys -- ./spmm -v A B OUT [options]           timeline: time of stages, kernels and copies
#   bash tools/scripts/profile.sh ncu [STAGE] -- ./spmm -v A B OUT [options]    counters of the first 20 kernels of one stage
# Stages (multiply unless named: build, count, multiply, compact) are NVTX ranges of the domain spmm; bytes or pairs are their payload.
# Source lines of GPU code in ncu: cmake --preset cuda-profile && cmake --build --preset cuda-profile, then build-cuda-profile/bin/spmm.
set -euo pipefail

stage=multiply
if [[ ${2:-} != -- ]]; then stage=${2:-}; fi
if [[ ! ${1:-} =~ ^(nsys|ncu)$ || " $* " != *' -- '* ]]; then
  sed -n '2,6s/^# *//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
profiler=$1
while [[ $1 != -- ]]; do shift; done
shift
tool=$(command -v "$profiler" || ls "/usr/local/cuda/bin/$profiler" 2>/dev/null) || {
  echo "$profiler was not found: it comes with the CUDA toolkit" >&2
  exit 69
}
out=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/profile
mkdir -p "$out"
export SPMM_BACKEND=${SPMM_BACKEND:-cuda} # a small product would run on the CPU, where a profiler of the GPU finds nothing
if [[ $profiler == nsys ]]; then
  "$tool" profile --trace=cuda,nvtx,osrt --force-overwrite=true --output="$out/spmm" "$@"
  "$tool" stats --force-export=true --report nvtx_sum --report cuda_gpu_kern_sum --report cuda_gpu_mem_time_sum "$out/spmm.nsys-rep"
  echo "timeline: nsys-ui $out/spmm.nsys-rep"
else
  "$tool" --nvtx --nvtx-include "spmm@$stage/" --clock-control none --launch-count 20 --force-overwrite --export "$out/spmm" "$@"
  "$tool" --import "$out/spmm.ncu-rep" --print-summary per-kernel --page details
  echo "counters: ncu-ui $out/spmm.ncu-rep"
fi
