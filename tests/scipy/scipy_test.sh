#!/usr/bin/env bash
# Round trips through SciPy: scipy_test.sh BIN HAS_LIBZIP. Skipped (77) where there is no python3 with SciPy, or no libzip.
set -euo pipefail

bin=$1
if [[ $2 != ON ]]; then
  echo "skipped: spmm-convert was built without libzip"
  exit 77
fi
for python in python3 /usr/bin/python3; do
  if ! "$python" -c 'import numpy, scipy.io, scipy.sparse' 2>/dev/null; then continue; fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  unset "${!SPMM_@}"
  "$python" "$(dirname "${BASH_SOURCE[0]}")/scipy_round_trips.py" "$bin" "$work" 200 60
  exit
done
echo "skipped: no python3 with SciPy (Debian: python3-scipy)"
exit 77
