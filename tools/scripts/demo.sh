#!/usr/bin/env bash
# Builds spmm, leaves ./spmm at the root of the checkout and multiplies two small matrices, checked.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

case ${1:-} in
--cuda | --cpu | '') choose_backend "${1:-}" ;;
*) die "usage: bash tools/scripts/demo.sh [--cuda | --cpu]
  --cuda  build for GPUs, also if there is none (a login node)
  --cpu   build the CPU backend alone, also if there is a GPU
Without either it builds for a GPU if there are one and nvcc. What is chosen stays until build/ is removed." ;;
esac

cpu_seconds=160 cuda_seconds=250
set_up spmm_main

work=$build/demo
bin=$build/bin
mkdir -p "$work"
unset "${!SPMM_@}" # the demonstration runs with the defaults

run() {
  printf '$ %s\n' "${*//"$root"\//}"
  "$@"
}

"$bin/spmm-gen" -q --n 4096 --m 8 --k 20000 --seed 1 --max-value 2047 "$work/a.bin"
"$bin/spmm-gen" -q --n 4096 --m 8 --k 20000 --seed 2 --max-value 2047 "$work/b.bin"
run ./spmm -v --verify 100 "$work/a.bin" "$work/b.bin" "$work/c.bin"
run ./spmm --backend cpu --kernel reference "$work/a.bin" "$work/b.bin" "$work/reference.bin"
run "$bin/spmm-compare" "$work/c.bin" "$work/reference.bin"
say "checked: the product equals the one by the definition ($(stat -c %s "$work/c.bin") bytes); ./spmm is ready"
