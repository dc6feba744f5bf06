#!/usr/bin/env bash
# Executed instructions for each multiply-add of the CPU kernels, counted by qemu-user: instructions.sh ARM_BUILD BUILD [SIDE...]
# ARM_BUILD: a build of the preset aarch64, BUILD: one of this machine, both with the target spmm_kernel_runs. Prints a table.
# Fails where a wider instruction set of ARM takes more than a narrower one. Instructions are no times.
set -euo pipefail

arm=$1 here=$2 sides=("${@:3}")
((${#sides[@]} > 0)) || sides=(4 8 16 32 64)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -shared -fPIC "$(dirname "${BASH_SOURCE[0]}")/count_plugin.c" -o "$work/count.so" -Wl,--unresolved-symbols=ignore-all
# count EMULATOR... -- ARGUMENTS of kernel_runs: instructions of one repetition over multiply-adds.
count() {
  local emulator=() one two
  while [[ $1 != -- ]]; do emulator+=("$1") && shift; done
  shift
  for repeats in 1 2; do "${emulator[@]}" "$@" $repeats 2>"$work/$repeats" >"$work/out"; done
  one=$(sed -n 's/^instructions //p' "$work/1") two=$(sed -n 's/^instructions //p' "$work/2")
  awk -v m="$1" -v one="$one" -v two="$two" '$1 == "pairs" { printf "%.3f", (two - one) / ($2 * m * m * m) }' "$work/out"
}
on_arm() { SPMM_CPU_ISA=$1 count qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu -plugin "$work/count.so" -d plugin \
  "$arm/tests/spmm_kernel_runs" -- "${@:2}"; }
on_x86() { SPMM_CPU_ISA=$1 count qemu-x86_64 -cpu max -plugin "$work/count.so" -d plugin "$here/tests/spmm_kernel_runs" -- "${@:2}"; }

echo "| side | elements to | portable, ARM | neon-dotprod | neon-i8mm | avx2 |"
echo "| --- | --- | --- | --- | --- | --- |"
for m in "${sides[@]}"; do
  for largest in 255 2047 65535; do
    row=("$(on_arm portable "$m" $largest)" "$(on_arm neon-dotprod "$m" $largest)" "$(on_arm neon-i8mm "$m" $largest)")
    echo "| $m | $largest | ${row[0]} | ${row[1]} | ${row[2]} | $(on_x86 avx2 "$m" $largest) |"
    awk -v a="${row[0]}" -v b="${row[1]}" -v c="${row[2]}" 'BEGIN { exit !(c <= b && b <= a) }' ||
      { echo "instructions.sh: side $m, elements to $largest: a wider instruction set takes more" >&2 && exit 1; }
  done
done
