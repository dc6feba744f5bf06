#!/usr/bin/env bash
# Tests of the Python package against the library of this build: python_test.sh LIBRARY. Skipped (77) without NumPy.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for python in python3 /usr/bin/python3; do
  if ! "$python" -c 'import numpy' 2>/dev/null; then continue; fi
  unset "${!SPMM_@}"
  export SPMM_LIBRARY=$1 PYTHONPATH=$here/../../tools/python:$here PYTHONDONTWRITEBYTECODE=1
  if ! "$python" -c 'import scipy.sparse' 2>/dev/null; then echo "no SciPy: its tests are skipped (Debian: python3-scipy)"; fi
  # shellcheck disable=SC2093  # the first one that will do ends the loop
  exec "$python" -m unittest discover -s "$here" -p 'test_*.py' -v
done
echo "skipped: no python3 with NumPy (Debian: python3-numpy)"
exit 77
