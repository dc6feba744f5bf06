#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh virtual environment, and multiplies with it: wheel_test.sh SOURCE WORK COMPILER.
# Skipped (77) where venv or NumPy is missing, or pip does not get what it builds with.
set -euo pipefail

source=$1 work=$2 compiler=$3
skip() {
  echo "skipped: $*"
  exit 77
}
# shellcheck source-path=SCRIPTDIR source=find_python.sh
source "$(dirname "${BASH_SOURCE[0]}")/find_python.sh"
find_python numpy
"$python" -c 'import venv, ensurepip' 2>/dev/null || skip "$python has no venv (Debian: python3-venv)"
unset "${!SPMM_@}" PYTHONPATH
rm -rf "$work/env" "$work/wheel"
mkdir -p "$work"
"$python" -m venv --system-site-packages "$work/env" || skip "no virtual environment can be made"
pip() { "$work/env/bin/python" -m pip --disable-pip-version-check "$@"; }
timeout 300 "$work/env/bin/python" -m pip --disable-pip-version-check install -q 'scikit-build-core>=0.10' ||
  skip "pip does not get scikit-build-core"

# Unoptimised: it is the package that is tested here, and it is built a second time.
options=(--config-settings=cmake.define.SPMM_CUDA=OFF "--config-settings=cmake.define.CMAKE_CXX_COMPILER=$compiler"
         --config-settings=cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O1 "--config-settings=build-dir=$work/build")
if command -v ccache >/dev/null; then options+=(--config-settings=cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
CMAKE_BUILD_PARALLEL_LEVEL=2 pip wheel -q --no-deps --no-build-isolation -w "$work/wheel" "${options[@]}" "$source/tools/python"
files=("$work"/wheel/spmm-*.whl)
[[ ${#files[@]} == 1 ]] || { echo "expected one wheel: ${files[*]}"; exit 1; }
"$work/env/bin/python" - "${files[0]}" <<'END'
import os, sys, zipfile
names = sorted(name for name in zipfile.ZipFile(sys.argv[1]).namelist() if ".dist-info/" not in name)
others = ["spmm/jax_handler.cpp", "spmm/libspmm.so", "spmm/py.typed"]
assert "spmm/__init__.py" in names and [name for name in names if not name.endswith(".py")] == others, names
assert all(name.startswith("spmm/") for name in names), names
assert os.path.getsize(sys.argv[1]) < 6_000_000, f"the wheel has {os.path.getsize(sys.argv[1])} bytes, more than 6 MB"
assert b".symtab" not in zipfile.ZipFile(sys.argv[1]).read("spmm/libspmm.so"), "the library is not stripped"
END
pip install -q --no-deps --no-index "${files[0]}"
cd "$work"
"$work/env/bin/python" - "${files[0]}" <<'END'
import os, sys, numpy as np, spmm
assert spmm.__file__.startswith(sys.prefix), spmm.__file__
c = spmm.multiply(np.array([[60000, 60000]]), np.array([[60000, 1], [60000, 0]]), dtype="uint32")
assert c.data.reshape(-1).tolist() == [2**32 - 1, 60000], c
print(spmm.version())
assert os.path.basename(sys.argv[1]).startswith(f"spmm-{spmm.__version__}-py3-none-"), sys.argv[1]
with open("/proc/self/maps") as maps:
    loaded = {line.split()[-1] for line in maps if "libspmm" in line}
assert loaded == {os.path.join(os.path.dirname(spmm.__file__), "libspmm.so")}, loaded  # not one of the system
END
echo "the wheel ${files[0]##*/} works"
