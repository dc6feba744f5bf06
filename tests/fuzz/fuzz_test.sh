#!/usr/bin/env bash
# Fuzzes every target a little: fuzz_test.sh SOURCE BUILD. 77: clang has no libFuzzer here.
set -euo pipefail
source_dir=$1
build=$2/fuzz
seconds=${SPMM_FUZZ_SECONDS:-60} # of each target, at most
runs=${SPMM_FUZZ_RUNS:-500} # with a fixed seed: the same inputs each time; fuzz.sh tries new ones

compiler=
for candidate in clang++ clang++-{19,18,17,16,15,14}; do
  if command -v "$candidate" >/dev/null &&
    echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    "$candidate" -fsanitize=fuzzer,address -x c++ - -o /dev/null 2>/dev/null; then
    compiler=$candidate
    break
  fi
done
if [[ -z $compiler ]]; then
  echo "skipped: no clang with libFuzzer (Debian: clang, libclang-rt-dev)"
  exit 77
fi

options=(-S "$source_dir" -B "$build" -D "CMAKE_CXX_COMPILER=$compiler" -D CMAKE_BUILD_TYPE=Debug -D SPMM_FUZZ=ON
  -D "CMAKE_CXX_FLAGS_DEBUG=-O0 -gline-tables-only" -D SPMM_CUDA=OFF -D SPMM_MPI=OFF -D SPMM_WERROR=OFF)
if command -v ninja >/dev/null; then options+=(-G Ninja); fi
if command -v ccache >/dev/null; then options+=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake "${options[@]}" >"$2/fuzz-build.log" 2>&1 &&
  cmake --build "$build" --target spmm_fuzz -j "$(nproc)" >>"$2/fuzz-build.log" 2>&1 || {
  tail -n 40 "$2/fuzz-build.log"
  echo "the fuzz targets do not build; see $2/fuzz-build.log"
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for corpus in "$source_dir"/tests/fuzz/corpus/*/; do
  target=$(basename "$corpus")
  mkdir "$work/$target"
  # The time limit of an input is generous: a busy machine is no finding. fuzz.sh has the tight one.
  if ! "$build/bin/spmm_fuzz" "--target=$target" "$work/$target" "$corpus" -seed=1 -runs="$runs" \
    -max_total_time="$seconds" -timeout=120 -rss_limit_mb=2048 -malloc_limit_mb=512 -max_len=4096 \
    -artifact_prefix="$2/fuzz-$target-" >"$work/log" 2>&1; then
    tail -n 60 "$work/log"
    echo "target $target: the input lies in $2/fuzz-$target-*; repair, then keep it in tests/fuzz/corpus/$target"
    exit 1
  fi
  echo "$target: $(grep -a '^Done' "$work/log")"
done
