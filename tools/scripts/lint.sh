#!/usr/bin/env bash
# Static checks: shellcheck on all scripts, clang-tidy with the checks of .clang-tidy. A warning is a failure.
#   bash tools/scripts/lint.sh                 sources that differ from the branch main, or are not committed
#   bash tools/scripts/lint.sh --all           all sources: about a quarter of an hour of processor time
#   bash tools/scripts/lint.sh --quick         what the test lint_test runs: a few checks on a few sources, seconds
#   bash tools/scripts/lint.sh FILE.cpp ...    these
# BUILD names the folder with compile_commands.json (default: the newest of build*). Exit code 77: nothing is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Named one by one: a newer clang-tidy has more checks of the same families.
quick_checks=(bugprone-argument-comment bugprone-copy-constructor-init bugprone-dangling-handle bugprone-fold-init-type
  bugprone-forwarding-reference-overload bugprone-inaccurate-erase bugprone-incorrect-roundings bugprone-infinite-loop
  bugprone-integer-division bugprone-misplaced-widening-cast bugprone-parent-virtual-call bugprone-redundant-branch-condition
  bugprone-sizeof-expression bugprone-string-constructor bugprone-suspicious-semicolon bugprone-swapped-arguments
  bugprone-too-small-loop-variable bugprone-unhandled-self-assignment bugprone-unused-raii bugprone-use-after-move
  performance-for-range-copy performance-implicit-conversion-in-loop performance-inefficient-vector-operation
  performance-move-const-arg performance-move-constructor-init performance-unnecessary-copy-initialization)

if ! git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
  echo "lint.sh: skipped: this is no checkout of git, whose list of files it needs"
  exit 77
fi
failed=0
ran=0
if command -v shellcheck > /dev/null; then
  ran=1
  mapfile -t scripts < <(git ls-files '*.sh' '*.sbatch' '*.pbs' .ci/run)
  shellcheck -x --severity=warning "${scripts[@]}" || failed=1
else
  echo "lint.sh: skipped: scripts, shellcheck is missing"
fi

# The sources to check, one a line. Those for CUDA are left to nvcc.
sources() {
  case "${1:-}" in
    --all) git ls-files 'src/*.cpp' 'tools/*.cpp' 'tests/*.cpp' ;;
    --quick) git ls-files 'src/plan/p*.cpp' 'src/base/t*.cpp' ;;
    '') { git diff --name-only --diff-filter=d main -- '*.cpp' && git ls-files --others --exclude-standard -- '*.cpp'; } | sort -u ;;
    *) printf '%s\n' "$@" ;;
  esac | grep -vE '^(src/cuda|tests/gpu|tests/fuzz)/|^tools/dense/dense_device\.cpp$' || true
}

if command -v clang-tidy > /dev/null; then
  ran=1
  build=${BUILD:-}
  if [[ -z $build ]]; then
    for database in $(ls -t build*/compile_commands.json 2> /dev/null || true); do build=${build:-$(dirname "$database")}; done
  fi
  [[ -e $build/compile_commands.json ]] || { echo "lint.sh: no compile_commands.json; run cmake first, or set BUILD" >&2; exit 1; }
  # Sources that are compiled a dozen at a time are not in the list of commands: one of its own is made without that.
  if grep -qx 'SPMM_UNITY:BOOL=ON' "$build/CMakeCache.txt" 2> /dev/null; then
    generator=$(sed -n 's/^CMAKE_GENERATOR:INTERNAL=//p' "$build/CMakeCache.txt")
    cmake -S . -B "$build/lint" -G "$generator" -D SPMM_UNITY=OFF -D SPMM_CUDA=OFF > /dev/null
    build=$build/lint
  fi
  # Warnings of the compiler are g++'s to give; clang does not know all of its options.
  options=(-p "$build" --quiet --warnings-as-errors='*' --extra-arg=-w)
  if [[ ${1:-} == --quick ]]; then options+=(--checks="-*,$(IFS=,; echo "${quick_checks[*]}")"); fi
  sources "$@" | xargs -r -P "$(nproc)" -n 2 clang-tidy "${options[@]}" 2> /dev/null || failed=1
else
  echo "lint.sh: skipped: sources, clang-tidy is missing"
fi
if ((ran == 0)); then exit 77; fi
exit "$failed"
