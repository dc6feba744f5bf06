#!/usr/bin/env bash
# Makes the packages of the last commit, without the changes since then: package.sh [FOLDER] [CMAKE_OPTION...]
# FOLDER (build-packages/out if not given) gets the packages of Debian, an archive, the sources and SHA256SUMS; with PACKAGE_WHEEL=1
# also the wheel. CPU only; -D SPMM_CUDA=ON makes the same for GPUs. The same commit gives the same bytes.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build-packages
out=${1:-$build/out}
options=("${@:2}")
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
if command -v ccache >/dev/null; then launcher=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -S "$build/spmm" -B "$build/spmm/build" -D CMAKE_BUILD_TYPE=Release -D CMAKE_INSTALL_PREFIX=/usr -D SPMM_CUDA=OFF \
  -D SPMM_MPI=OFF -D SPMM_OPENBLAS=OFF -D SPMM_BUILD_TESTS=OFF "${launcher[@]}" "${options[@]}" >"$build/package.log"
cmake --build "$build/spmm/build" -j "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" >>"$build/package.log"
(cd "$build/spmm/build" && cpack >>"$build/package.log")
mv "$build"/spmm/build/packages/*.{deb,tar.gz} "$out"
if [[ ${PACKAGE_WHEEL:-0} == 1 ]]; then
  python3 -m pip wheel -q --no-deps -w "$out" --config-settings=cmake.define.SPMM_CUDA=OFF "$build/spmm/tools/python"
fi
rm -rf "$build/spmm"
cd "$out"
shopt -s nullglob
files=(*.deb *.tar.gz *.whl)
sha256sum "${files[@]}" >SHA256SUMS
stat -c '%s bytes, %n' "${files[@]}"
