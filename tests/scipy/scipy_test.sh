#!/usr/bin/env bash
# Round trips through SciPy: scipy_test.sh BIN HAS_LIBZIP. Skipped (77) where there is no python3 with SciPy, or no libzip.
set -euo pipefail

bin=$1
if [[ $2 != ON ]]; then
  echo "skipped: spmm-convert was built without libzip"
  exit 77
fi
# shellcheck source-path=SCRIPTDIR source=../python/find_python.sh
source "$(dirname "${BASH_SOURCE[0]}")/../python/find_python.sh"
find_python numpy scipy
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset "${!SPMM_@}"
"$python" "$(dirname "${BASH_SOURCE[0]}")/scipy_round_trips.py" "$bin" "$work" 200 60
