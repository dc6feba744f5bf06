#!/usr/bin/env bash
# Runs a spmm command under a profiler.
set -euo pipefail

usage() {
  cat <<'END'
usage: bash tools/scripts/profile.sh [nsys|ncu|none] [STAGE] -- ./spmm -v A B OUT [options]

  nsys   timeline of the whole run: time per stage, per kernel and per copy direction (the default where nsys is found)
  ncu    counters of the first 20 kernels of one STAGE (multiply unless named: build, count, multiply, compact)
  none   no profiler: the stage table of spmm -v

Stages of a run are NVTX ranges of the same name in the domain spmm; bytes or pairs are their payload. Reports are written below build/profile/.
For the source lines of GPU code in ncu: cmake --preset cuda-profile && cmake --build --preset cuda-profile, then build-cuda-profile/bin/spmm.
END
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$root/build/profile
profiler=
stage=multiply
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    nsys | ncu | none) profiler=$1 ;;
    --)
      shift
      break
      ;;
    open | budget | read | h2d | build | count | plan | multiply | compact | d2h | write | verify) stage=$1 ;;
    *)
      printf 'unknown argument: %s\n\n' "$1" >&2
      usage >&2
      exit 2
      ;;
  esac
  shift
done
if (($# == 0)); then
  usage >&2
  exit 2
fi

# find_profiler NAME: on PATH, or in the toolkit's folder.
find_profiler() {
  command -v "$1" || ls "/usr/local/cuda/bin/$1" 2>/dev/null
}

if [[ -z $profiler ]]; then
  profiler=none
  if find_profiler nsys >/dev/null; then profiler=nsys; fi
fi
tool=
if [[ $profiler != none ]] && ! tool=$(find_profiler "$profiler"); then
  printf '%s was not found: install NVIDIA Nsight %s (it comes with the CUDA toolkit), or use: tools/scripts/profile.sh none -- ...\n' \
    "$profiler" "$([[ $profiler == nsys ]] && echo Systems || echo Compute)" >&2
  exit 69
fi

mkdir -p "$out"
# A small product would run on the CPU, where a profiler of the GPU finds nothing.
if [[ $profiler != none && -e /proc/driver/nvidia/version && ! " $*" =~ \ --(backend|kernel) ]]; then
  export SPMM_BACKEND=${SPMM_BACKEND:-cuda}
fi
case $profiler in
  none) exec "$@" ;;
  nsys)
    "$tool" profile --trace=cuda,nvtx,osrt --force-overwrite=true --output="$out/spmm" "$@"
    "$tool" stats --force-export=true --report nvtx_sum --report cuda_gpu_kern_sum --report cuda_gpu_mem_time_sum \
      "$out/spmm.nsys-rep"
    printf 'timeline: nsys-ui %s\n' "$out/spmm.nsys-rep"
    ;;
  ncu)
    "$tool" --nvtx --nvtx-include "spmm@$stage/" --clock-control none --launch-count 20 --force-overwrite --export "$out/spmm" "$@"
    "$tool" --import "$out/spmm.ncu-rep" --print-summary per-kernel --page details
    printf 'counters: ncu-ui %s\n' "$out/spmm.ncu-rep"
    ;;
esac
