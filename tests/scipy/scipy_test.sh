#!/usr/bin/env bash
# Round trips through SciPy: scipy_test.sh BIN LIBRARY. Skipped (77) without a python3 that has SciPy.
set -euo pipefail

bin=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../python/find_python.sh
source "$here/../python/find_python.sh"
find_python numpy scipy
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset "${!SPMM_@}"
export SPMM_LIBRARY=$2 PYTHONPATH=$here/../../tools/python PYTHONDONTWRITEBYTECODE=1
"$python" "$here/scipy_round_trips.py" "$bin" "$work" 200 60
