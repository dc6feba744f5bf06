#!/usr/bin/env bash
# On a machine with a GPU: GPU tests, compute-sanitizer, and signals at random moments. build/tests/spmm-stress compares kernels,
# limits and backends; measure.sh measures times.
set -euo pipefail

bin=${BIN:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/bin}
tests=${TESTS:-$bin/../tests/gpu_tests}
if (($# == 0)); then
  echo "usage: [BIN=FOLDER] [TESTS=PROGRAM] bash tools/scripts/check-gpu.sh STEP...
  tests       GPU tests; fails without a device
  sanitize    memcheck, racecheck, initcheck and synccheck over a part of the GPU tests
  kill        SIGTERM at random moments of a GPU run leaves the old output and no temporary file" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run_kill() {
  local x code stopped=0 folder=$work/kill
  mkdir -p "$folder"
  "$bin/spmm-gen" -q --n 8192 --m 8 --k 100000 --seed 1 "$work/a.bin"
  "$bin/spmm-gen" -q --n 8192 --m 8 --k 100000 --seed 2 "$work/b.bin"
  "$bin/spmm" -q "$work/a.bin" "$work/b.bin" "$work/out.bin" --backend cuda
  printf 'old' >"$work/old.bin"
  for ((x = 0; x < 20; ++x)); do
    cp "$work/old.bin" "$folder/c.bin"
    "$bin/spmm" -q "$work/a.bin" "$work/b.bin" "$folder/c.bin" --backend cuda &
    sleep "0.$((RANDOM % 8))$((RANDOM % 10))"
    kill -TERM $! 2>/dev/null || true
    code=0
    wait $! 2>/dev/null || code=$?
    if cmp -s "$folder/c.bin" "$work/old.bin"; then
      stopped=$((stopped + 1))
      if ((code != 75 && code != 143)); then printf 'exit code %d with the old output\n' "$code" >&2; exit 1; fi
    else
      cmp "$folder/c.bin" "$work/out.bin"
    fi
    if [[ $(find "$folder" -type f | wc -l) != 1 ]]; then find "$folder" >&2; exit 1; fi
  done
  printf 'kill: 20 runs, %d stopped with the old output, the others complete; nothing left behind\n' "$stopped"
}

for step; do
  printf '== %s\n' "$step"
  case $step in
    tests) SPMM_REQUIRE_GPU=1 "$tests" ;;
    sanitize)
      for tool in memcheck racecheck initcheck synccheck; do
        printf '%s: ' "$tool"
        # racecheck follows every access to shared memory: minutes for the larger tests, and it does not know the
        # barriers of the copy engine that the tensor-core kernels wait on
        part='small *~small dense*~small tiles*'
        if [[ $tool != racecheck ]]; then part='small *,*column chunks*,*cancelled*'; fi
        SPMM_REQUIRE_GPU=1 compute-sanitizer --tool "$tool" --error-exitcode 9 "$tests" "$part" | tail -n 1
      done
      ;;
    kill) run_kill ;;
    *) echo "unknown step: $step" >&2; exit 2 ;;
  esac
done
