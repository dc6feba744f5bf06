#!/usr/bin/env bash
# On a machine with a GPU: GPU tests, compute-sanitizer, and the named cases end to end, checked against each other.
set -euo pipefail

usage() {
  cat <<'END'
usage: bash tools/scripts/check-gpu.sh [--bin DIR] [--tests PROGRAM] [--work DIR] [--json DIR] STEP...

steps
  tests       GPU tests; fails without a device
  sanitize    memcheck, racecheck, initcheck and synccheck over a part of the GPU tests
  S1 ... S6   generate, multiply with every kernel that suits the case, compare the outputs, print the stage times
  limit       S2 within 2 GB on GPU and CPU gives the bytes of an unlimited run
  kill        SIGTERM at random moments of a GPU run leaves the old output and no temporary file
END
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/build/bin
tests=$root/build/tests/gpu_tests
work=$(mktemp -d)
json=
steps=()
while (($# > 0)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --bin) bin=$2; shift ;;
    --tests) tests=$2; shift ;;
    --work) work=$2; mkdir -p "$work"; shift ;;
    --json) json=$2; mkdir -p "$json"; shift ;;
    *) steps+=("$1") ;;
  esac
  shift
done
if ((${#steps[@]} == 0)); then usage >&2; exit 2; fi
json=${json:-$work}
trap 'rm -rf "$work"/{a,b,out,old,other}.bin' EXIT

# generate CASE: a.bin and b.bin of a named case (data/README.md).
generate() {
  local -a shape
  case $1 in
    S1) shape=(--n 8192 --m 8 --k 100000) ;;
    S2) shape=(--n 32768 --m 4 --k 1000000) ;;
    S3) shape=(--n 32768 --m 8 --k 8800000) ;;
    S4) shape=(--n 32768 --m 4 --k 33000000) ;;
    S5) shape=(--n 1048576 --m 8 --k 1000000) ;;
    S6) shape=(--n 16777216 --m 8 --k 10000000) ;;
  esac
  "$bin/spmm-gen" -q "${shape[@]}" --seed 1 "$work/a.bin"
  "$bin/spmm-gen" -q "${shape[@]}" --seed 2 "$work/b.bin"
}

# number FILE KEY: the number behind a key of a JSON report.
number() { sed -n "s/.*\"$2\": *\([0-9.e+-]*\).*/\1/p" "$1" | head -n 1; }

# stage FILE NAME: seconds of a stage in milliseconds.
stage() {
  sed -n "/\"$2\": *{/,/}/p" "$1" | sed -n 's/.*"s": *\([0-9.e+-]*\).*/\1/p' | awk '{printf "%.2f", $1 * 1000}'
}

# multiply NAME OUT OPTIONS...: runs, prints one line of times.
multiply() {
  local name=$1 out=$2 report=$json/$1.json s
  shift 2
  rm -f "$out"
  "$bin/spmm" -q "$work/a.bin" "$work/b.bin" "$out" --report "$report" "$@"
  printf '%-24s total %7.3f s |' "$name" "$(number "$report" total_s)"
  for s in read h2d build count multiply compact d2h write; do printf ' %s %s' "$s" "$(stage "$report" "$s")"; done
  printf ' ms | host %.2f GB device %.2f GB\n' "$(number "$report" peak_host_bytes | awk '{print $1/1e9}')" \
    "$(number "$report" peak_device_bytes | awk '{print $1/1e9}')"
}

same() { cmp "$1" "$2" && printf '  same bytes: %s\n' "$3"; }

run_case() {
  local name=$1 kernel
  local -a kernels=(two-pointer)
  case $name in
    S1) kernels+=(binary-search row-spread dense-tensor) ;;
    S2) kernels+=(binary-search) ;;
  esac
  generate "$name"
  multiply "$name-auto-1" "$work/out.bin" --backend cuda
  multiply "$name-auto-2" "$work/out.bin" --backend cuda
  for kernel in "${kernels[@]}"; do
    multiply "$name-$kernel" "$work/other.bin" --backend cuda --kernel "$kernel"
    same "$work/out.bin" "$work/other.bin" "auto and $kernel"
  done
  case $name in
    S1 | S2 | S5)
      multiply "$name-cpu" "$work/other.bin" --backend cpu
      same "$work/out.bin" "$work/other.bin" "auto and cpu"
      ;;
  esac
}

run_limit() {
  generate S2
  multiply limit-none "$work/out.bin" --backend cuda
  multiply limit-2G "$work/other.bin" --backend cuda --memory-limit 2G
  same "$work/out.bin" "$work/other.bin" "no limit and 2 GB"
  multiply limit-1G-two-pointer "$work/other.bin" --backend cuda --memory-limit 1G --kernel two-pointer
  same "$work/out.bin" "$work/other.bin" "no limit and 1 GB, two-pointer"
  multiply limit-2G-cpu "$work/other.bin" --backend cpu --memory-limit 2G
  same "$work/out.bin" "$work/other.bin" "no limit and 2 GB, cpu"
}

run_kill() {
  local x code stopped=0 folder=$work/kill
  mkdir -p "$folder"
  generate S1
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

for step in "${steps[@]}"; do
  printf '== %s\n' "$step"
  case $step in
    tests) SPMM_REQUIRE_GPU=1 "$tests" ;;
    sanitize)
      for tool in memcheck racecheck initcheck synccheck; do
        printf '%s: ' "$tool"
        # racecheck follows every access to shared memory: minutes for the larger tests, and it does not know the
        # barriers of the copy engine that the dense kernel waits on
        part='small battery*,small long lists*,small list*'
        if [[ $tool != racecheck ]]; then part+=',block rows and columns*,*stretches*,small dense*,*report counts*,*cancelled*'; fi
        SPMM_REQUIRE_GPU=1 compute-sanitizer --tool "$tool" --error-exitcode 9 "$tests" "$part" | tail -n 1
      done
      ;;
    S[1-6]) run_case "$step" ;;
    limit) run_limit ;;
    kill) run_kill ;;
    *) printf 'unknown step: %s\n' "$step" >&2; usage >&2; exit 2 ;;
  esac
done
