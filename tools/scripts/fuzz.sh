#!/usr/bin/env bash
# Fuzzes the readers of the product: fuzz.sh HOURS [TARGET]. Without a target all of them share the time.
# New inputs stay in build-fuzz/corpus/TARGET, findings in build-fuzz/findings; an input that ends in a finding goes to
# tests/fuzz/corpus/TARGET together with the repair.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if (($# < 1 || $# > 2)) || [[ ! $1 =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
  echo "usage: fuzz.sh HOURS [TARGET]; targets: $(ls tests/fuzz/corpus | tr '\n' ' ')" >&2
  exit 2
fi
mapfile -t targets < <(if (($# == 2)); then echo "$2"; else ls tests/fuzz/corpus; fi)
seconds=$(awk -v hours="$1" -v targets="${#targets[@]}" 'BEGIN { printf "%d", hours * 3600 / targets + 1 }')

options=()
if command -v ccache >/dev/null; then options+=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
if command -v ninja >/dev/null && [[ ! -e build-fuzz/CMakeCache.txt ]]; then options+=(-G Ninja); fi
cmake --preset fuzz "${options[@]}" >/dev/null
cmake --build build-fuzz --target spmm_fuzz -j "$(nproc)"

mkdir -p build-fuzz/findings
failed=0
for target in "${targets[@]}"; do
  corpus=tests/fuzz/corpus/$target
  [[ -d $corpus ]] || { echo "no target $target in tests/fuzz/corpus" >&2; exit 2; }
  mkdir -p "build-fuzz/corpus/$target"
  echo "$target: $seconds s"
  build-fuzz/bin/spmm_fuzz "--target=$target" "build-fuzz/corpus/$target" "$corpus" -max_total_time="$seconds" \
    -timeout=5 -rss_limit_mb=2048 -malloc_limit_mb=512 -max_len=4096 -print_final_stats=1 \
    -artifact_prefix="build-fuzz/findings/$target-" >"build-fuzz/$target.log" 2>&1 || failed=1
  grep -aE '^(Done|==|SUMMARY|stat::number_of_executed)' "build-fuzz/$target.log" | tail -n 4
done
if ((failed)); then echo "findings lie in build-fuzz/findings, logs in build-fuzz/TARGET.log"; fi
exit $failed
