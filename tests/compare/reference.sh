#!/usr/bin/env bash
# Builds the reference of comparisons, revision 47a8a0d5, in a worktree of its own and prints the folder of its programs:
#   python3 tests/compare/compare_programs.py "$(bash tests/compare/reference.sh)" build/bin
#   bash tests/compare/reference.sh [FOLDER] [OPTIONS OF CMAKE]    FOLDER: build-reference in the checkout, else
# What is built already is kept.
set -euo pipefail
revision=47a8a0d5
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$root/build-reference
if (($#)) && [[ $1 != -* ]]; then
  folder=$(realpath -m "$1")
  shift
fi
[[ -e $folder/CMakeLists.txt ]] || git -C "$root" worktree add --quiet --detach "$folder" "$revision" >&2
cmake -S "$folder" -B "$folder/build" -D CMAKE_BUILD_TYPE=Release -D SPMM_BUILD_TESTS=OFF "$@" >&2
cmake --build "$folder/build" -j "$(nproc)" >&2
echo "$folder/build/bin"
