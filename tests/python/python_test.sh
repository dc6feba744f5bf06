#!/usr/bin/env bash
# Tests of the Python package against the library of this build: python_test.sh LIBRARY. Skipped (77) without NumPy.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=find_python.sh
source "$here/find_python.sh"
find_python numpy
"$python" "$here/packages.py" scipy || echo "skipped: the tests that need SciPy (Debian: python3-scipy)"
unset "${!SPMM_@}"
export SPMM_LIBRARY=$1 PYTHONPATH=$here/../../tools/python:$here PYTHONDONTWRITEBYTECODE=1
exec "$python" -m unittest discover -s "$here" -p 'test_*.py' -v
