# shellcheck shell=bash
# Shared by demo.sh and test.sh (sourced): finds or installs what the build needs, configures and builds into build/.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build
cd "$root" || exit

say() { printf '%s\n' "$*"; }
die() {
  printf '%s\n' "$*" >&2
  exit 1
}

# run_logged WHAT LOG COMMAND...: output goes to LOG, whose end is shown where the command fails.
run_logged() {
  local what=$1 log=$2
  shift 2
  if "$@" >"$log" 2>&1; then return 0; fi
  tail -n 40 "$log" >&2
  die "$what failed; the lines above are the end of $log"
}

# run_with_progress WHAT LOG COMMAND...: as run_logged; on a terminal, the last step of the build that the log names.
run_with_progress() {
  if [[ ! -t 1 ]]; then
    run_logged "$@"
    return
  fi
  local log=$2 pid step last=''
  run_logged "$@" &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    step=$(tail -n 5 "$log" 2>/dev/null | grep -oE '^\[ *[0-9]+(/[0-9]+|%)\]' | tail -n 1 || true)
    if [[ $step != "$last" ]]; then printf '\r%s\033[K' "$step"; fi
    last=$step
    sleep 0.5
  done
  printf '\r\033[K'
  wait "$pid" || exit 1
}

has_program() { command -v "$1" >/dev/null 2>&1; }

# has_header PATH...: one of the headers lies where the compiler or CMake looks.
has_header() {
  local dir header
  local -a dirs=()
  IFS=: read -r -a dirs <<<"/usr/include:/usr/local/include:${CPATH:-}:${CPLUS_INCLUDE_PATH:-}"
  for dir in $(tr ':;' '  ' <<<"${CMAKE_PREFIX_PATH:-}") ${CONDA_PREFIX:-}; do dirs+=("$dir/include"); done
  for dir in "${dirs[@]}"; do
    for header in "$@"; do
      if [[ -n $dir && -e $dir/$header ]]; then return 0; fi
    done
  done
  return 1
}

has_compiler() {
  local compiler=${CXX:-c++}
  if [[ -z ${CXX:-} ]] && ! has_program c++; then compiler=g++; fi
  printf '#if defined(__clang__) ? __clang_major__ < 14 : __GNUC__ < 11\n#error too old\n#endif\n#include <compare>\n' |
    $compiler -std=c++20 -E -x c++ - >/dev/null 2>&1
}

has_cmake() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9][0-9.]*\).*/\1/p')
  [[ -n $version && $(printf '%s\n3.25\n' "$version" | sort -V | head -n 1) == 3.25 ]]
}

# Debian's names of the packages that are not there, one a line.
missing_packages() {
  has_compiler || echo g++
  has_cmake || echo cmake
  has_program ninja || has_program make || echo ninja-build
  has_header cxxopts.hpp || echo libcxxopts-dev
  has_header nlohmann/json.hpp || echo nlohmann-json3-dev
  has_header catch2/catch.hpp catch2/catch_all.hpp || echo catch2
}

# Packages without which something is left out: .npz files in spmm-convert.
optional_packages() {
  has_header zip.h || echo libzip-dev
}

# install_packages PACKAGE...: with "$as_root" before each command; optional ones come along where they can be had.
install_packages() {
  local -a optional=()
  mapfile -t optional < <(optional_packages)
  "${as_root[@]}" apt-get update || true
  "${as_root[@]}" apt-get install -y --no-install-recommends "$@"
  if ((${#optional[@]} != 0)); then
    "${as_root[@]}" apt-get install -y --no-install-recommends "${optional[@]}" || true
  fi
}

ensure_packages() {
  local -a packages=() as_root=()
  mapfile -t packages < <(missing_packages)
  if ((${#packages[@]} == 0)); then return 0; fi
  local ask="Needed and not found: ${packages[*]}
(g++ 11 or newer, cmake 3.25 or newer.) Ask the administrator of this machine for
  apt-get install ${packages[*]}
or set CXX, PATH and CMAKE_PREFIX_PATH to where they are, then run this again."
  if ! has_program apt-get; then die "$ask"; fi
  if ((EUID == 0)); then
    as_root=(env DEBIAN_FRONTEND=noninteractive)
  elif has_program sudo && sudo -n true 2>/dev/null; then
    as_root=(sudo -n env DEBIAN_FRONTEND=noninteractive)
  else
    die "$ask"
  fi
  say "installing ${packages[*]} (log: $build/packages.log)"
  run_logged "apt-get" "$build/packages.log" install_packages "${packages[@]}"
  mapfile -t packages < <(missing_packages)
  if ((${#packages[@]} != 0)); then
    die "apt-get has run, and this is still missing or too old: ${packages[*]} (g++ 11, cmake 3.25 or newer are needed)"
  fi
}

# set_up TARGET...: everything up to the built targets, and ./spmm as a link to the program. The array cmake_options is
# given to cmake.
declare -a cmake_options=()
set_up() {
  mkdir -p "$build"
  ensure_packages

  local -a options=(-S "$root" -B "$build")
  if [[ ! -e $build/CMakeCache.txt ]]; then
    options+=(-D "CMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE:-Release}")
    # A newer compiler with new warnings must not keep users from building spmm; continuous integration is strict.
    if [[ -z ${CI:-} ]]; then options+=(-D SPMM_WERROR=OFF); fi
    if has_program ninja; then options+=(-G Ninja); fi
  elif ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
    options+=(--fresh) # the checkout has moved
  fi
  if has_program ccache; then
    options+=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache -D CMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  options+=("${cmake_options[@]}")
  run_logged "cmake" "$build/configure.log" cmake "${options[@]}"
  sed -n -e 's/^-- CUDA: /CUDA: /p' -e 's/^-- libzip: not found/libzip: not found/p' "$build/configure.log"

  local jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
  say "building $* with $jobs jobs (log: $build/build.log)"
  run_with_progress "the build" "$build/build.log" cmake --build "$build" -j "$jobs" --target "$@"
  ln -sfn build/bin/spmm "$root/spmm"
}
