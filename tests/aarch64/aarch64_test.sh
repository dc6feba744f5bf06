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
cmake --build "$build" --target spmm_main unit_{base,plan,io,cpu,engine}_tests cli{,_verify}_tests spmm_stress

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

ctest --test-dir "$build" --output-on-failure -R '^(unit_(base|plan|io|cpu|engine)_tests|instruction_sets_test)$'

# Whole programs, but for these:
left_out=(
  "[native]"  # programs that a shell starts, and times
  # a shell or script(1) starts the program, and knows no emulator
  "a process that ends early leaves one file and nothing else"
  "while files are held*"
  "a file system can go while files of another one are held"
  "a thousand early ends*"
  "standard streams that are closed*"
  "on a terminal the bar appears*"
  # the emulator handles every signal, so nobody sees when the program begins to
  "SIGTERM and SIGINT at 50 random moments"
  "a first signal ends long products in all their stages*"
  # strace delays calls of the emulator's
  "two SIGTERM half a second apart*"
)
SECONDS=0
for tests in cli cli_verify; do
  timeout 600 "${emulator[@]}" "$build/tests/${tests}_tests" "${left_out[@]/#/\~}" || { echo "$tests: exit code $?" && exit 1; }
done
echo "cli tests: $SECONDS s"

"${emulator[@]}" "$build/tests/spmm-stress" --count 200
