#!/usr/bin/env bash
# Compiles every kernel for every GPU architecture that is supported, and keeps nothing: bash tools/scripts/check-archs.sh [75 80 ...]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if (($# == 0)); then set -- 75 80 86 89 90 100 120; fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# compile ARCHITECTURE FILE
compile() {
  "$nvcc" -std=c++20 -O3 -I. -Iinclude --expt-relaxed-constexpr -Werror=all-warnings \
    -gencode "arch=compute_$1,code=sm_$1" -cubin -o "$out/$1-$(basename "$2").cubin" "$2"
}

for arch in "$@"; do
  for file in kernels/*/*.cu; do
    [[ $file == */tensor.cu || $file == */karatsuba.cu ]] || compile "$arch" "$file" # those are made for sm_90a alone
  done
  printf 'sm_%s: %d files compile\n' "$arch" "$(find "$out" -name "$arch-*" | wc -l)"
done
for file in kernels/*/tensor.cu kernels/dense/karatsuba.cu; do compile 90a "$file"; done
printf 'sm_90a: the tensor-core kernels compile\n'
