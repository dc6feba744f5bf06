#!/usr/bin/env bash
# The CPU backend for 64-bit ARM, run by qemu-user: aarch64_test.sh SOURCE BUILD BIN LAUNCHER. BUILD is a folder for that build, BIN
# has the programs of this machine. Skipped (77) without the cross compiler, ninja and qemu. Times say nothing about a real machine.
set -euo pipefail

source=$1 build=$2 bin=$3 launcher=${4:-}
for program in aarch64-linux-gnu-g++ qemu-aarch64 ninja; do
  command -v "$program" > /dev/null || { echo "skipped: $program is missing (Debian: g++-aarch64-linux-gnu qemu-user ninja-build)"; exit 77; }
done
unset "${!SPMM_@}"

cmake --preset aarch64 -G Ninja -S "$source" -B "$build" -D CMAKE_CXX_COMPILER_LAUNCHER="$launcher"
cmake --build "$build" --target spmm_main unit_{io,cpu}_tests spmm_stress

# A product by both machines' programs.
emulator=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for m in 3 8; do
  "${emulator[@]}" "$build/bin/spmm-gen" --quiet -n $((m * 128)) -m "$m" -k 2000 --seed 1 "$work/a.bin"
  "$bin/spmm-gen" --quiet -n $((m * 128)) -m "$m" -k 2000 --seed 1 "$work/here.bin"
  cmp "$work/a.bin" "$work/here.bin"
  "$bin/spmm" --quiet --transpose-a "$work/a.bin" "$work/a.bin" "$work/here.bin"
  "${emulator[@]}" "$build/bin/spmm" --quiet --transpose-a --verify full "$work/a.bin" "$work/a.bin" "$work/c.bin"
  cmp "$work/c.bin" "$work/here.bin"
done

ctest --test-dir "$build" --output-on-failure -R '^(unit_(io|cpu)_tests|instruction_sets_test)$'
"${emulator[@]}" "$build/tests/spmm-stress" --count 400
