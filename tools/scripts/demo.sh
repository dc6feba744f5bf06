#!/usr/bin/env bash
# Builds spmm, leaves ./spmm at the root of the checkout and multiplies two small matrices, checked.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

case ${1:-} in
--cpu) cmake_options=(-D SPMM_CUDA=OFF) ;; # also where there is nvcc; until build/ is removed
'') ;;
*) die "usage: bash tools/scripts/demo.sh [--cpu]
  --cpu  build the CPU backend alone, without CUDA; it stays so until build/ is removed" ;;
esac

set_up spmm_main spmm_gen spmm_compare spmm_info

work=$build/demo
bin=$build/bin
mkdir -p "$work"
unset "${!SPMM_@}" # the demonstration runs with the defaults

run() {
  printf '$ %s\n' "${*//"$root"\//}"
  "$@"
}

"$bin/spmm-gen" -q --n 4096 --m 8 --k 20000 --seed 1 --max-value 65535 "$work/a.bin"
"$bin/spmm-gen" -q --n 4096 --m 8 --k 20000 --seed 2 --max-value 65535 "$work/b.bin"
run ./spmm -v --verify 100 "$work/a.bin" "$work/b.bin" "$work/c.bin"
run ./spmm --backend cpu --kernel reference "$work/a.bin" "$work/b.bin" "$work/reference.bin"
run "$bin/spmm-compare" "$work/c.bin" "$work/reference.bin"
say "checked: the product equals the one by the definition ($(stat -c %s "$work/c.bin") bytes); ./spmm is ready"
