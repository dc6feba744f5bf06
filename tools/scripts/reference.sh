#!/usr/bin/env bash
# Makes pages of every public name: C and C++ by Doxygen in OUT/cpp, Python by pdoc in OUT/python. reference.sh [OUT]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$(realpath -m "${1:-$root/build/pages}")
need() { # COMMAND... HOW: exits with 69 and says how to get what does not run
  "${@:1:$#-1}" > /dev/null 2>&1 || { echo "reference.sh: error: \`${*:1:$#-1}\` does not run: ${*:$#}" >&2; exit 69; }
}
need doxygen --version "apt-get install doxygen"
need python3 -m pdoc --version "python3 -m pip install pdoc numpy"

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cmake -S "$root" -B "$build" -D SPMM_CUDA=OFF -D SPMM_MPI=OFF -D SPMM_BUILD_PROGRAMS=OFF > "$build/log" || {
  cat "$build/log" >&2
  exit 1
}
cmake --build "$build" --target reference
mkdir -p "$out"
rm -rf "$out/cpp" "$out/python"
cp -r "$build/reference/html" "$out/cpp"
PYTHONPATH=$root/tools/python PYTHONDONTWRITEBYTECODE=1 python3 -m pdoc --output-directory "$out/python" spmm
printf '%s\n' "$out/cpp/index.html" "$out/python/spmm.html"
