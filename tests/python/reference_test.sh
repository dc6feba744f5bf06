#!/usr/bin/env bash
# The reference of the Python package, in which every public name has a docstring: reference_test.sh LIBRARY FOLDER.
# Skipped (77) without NumPy.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=find_python.sh
source "$here/find_python.sh"
find_python numpy
export SPMM_LIBRARY=$1 PYTHONDONTWRITEBYTECODE=1
folder=$2
reference() { PYTHONPATH=$1 "$python" "$here/../../tools/scripts/python_reference.py" "${@:2}"; }
reference "$here/../../tools/python" spmm "$folder"
for name in multiply Engine SaturationError; do
  grep -q ">$name<" "$folder/spmm.html" || { echo "the reference has no $name" && exit 1; }
done

bare=$(mktemp -d)
trap 'rm -rf "$bare"' EXIT
printf '"""A module."""\n__all__ = ["Kind"]\nclass Kind:\n  """A class."""\n  def bare(self):\n    pass\n' >"$bare/bare.py"
if reference "$bare" bare "$bare" 2>"$bare/errors"; then echo "a name without a docstring passes" && exit 1; fi
grep -qx 'bare.Kind.bare has no docstring' "$bare/errors"
