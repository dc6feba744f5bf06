#!/usr/bin/env bash
# The examples in Python print what their page shows: examples_test.sh LIBRARY. Skipped (77) without NumPy and SciPy.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=find_python.sh
source "$here/find_python.sh"
find_python numpy scipy
examples=$(cd "$here/../../tools/examples" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset "${!SPMM_@}"
export SPMM_LIBRARY=$1 PYTHONPATH=$here/../../tools/python PYTHONDONTWRITEBYTECODE=1
failed=0
for example in "$examples"/*.py; do
  name=$(basename "$example")
  echo "$name"
  "$python" "$example" > printed || failed=1
  # The first block of code below the heading.
  awk -v heading="## $name" '/^## / { here = $0 == heading; blocks = 0 } /^```/ { blocks++; next } here && blocks == 1' \
    "$examples/README.md" > shown
  diff shown printed || { echo "$name prints other lines than README.md shows"; failed=1; }
  [[ $(wc -l < "$example") -le 80 ]] || { echo "$name has more than 80 lines"; failed=1; }
done
exit "$failed"
