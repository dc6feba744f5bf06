# shellcheck shell=bash
# Shared by demo.sh, test.sh and package.sh (sourced): finds or installs what the build needs, configures and builds into build/.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build
cd "$root" || exit

say() { printf '%s\n' "$*"; }
die() {
  printf '%s\n' "$*" >&2
  rmdir "$build" 2>/dev/null || true # nothing stays where nothing was begun
  exit 1
}

# run_logged WHAT LOG COMMAND...: output goes to LOG, whose end is shown if the command fails.
run_logged() {
  local what=$1 log=$2
  shift 2
  if "$@" >"$log" 2>&1; then return 0; fi
  tail -n 40 "$log" >&2
  die "$what failed; the lines above are the end of $log"
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
  # No pipe: a compiler that ends before it has read all would fail the writer.
  $compiler -std=c++20 -E -x c++ - >/dev/null 2>&1 <<<'#if defined(__clang__) ? __clang_major__ < 14 : __GNUC__ < 11
#error too old
#endif
#include <compare>'
}

has_cmake() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9][0-9.]*\).*/\1/p')
  [[ -n $version && $(printf '%s\n3.25\n' "$version" | sort -V | head -n 1) == 3.25 ]]
}

has_nvcc() { has_program nvcc || has_program "${CUDACXX:-}" || [[ -x ${CUDA_PATH:-/usr/local/cuda}/bin/nvcc || -x /opt/cuda/bin/nvcc ]]; }

# A device file of the driver, also that of WSL.
has_gpu() { [[ -n $(compgen -G '/dev/nvidia[0-9]*') || -e /dev/dxg ]]; }

# Debian's names of the packages that are not there, one a line.
missing_packages() {
  has_compiler || echo g++
  has_cmake || echo cmake
  has_program ninja || has_program make || echo ninja-build
  has_header cxxopts.hpp || echo libcxxopts-dev
  has_header nlohmann/json.hpp || echo nlohmann-json3-dev
  more_packages
}

# What a script needs in addition; it has a function of its own.
more_packages() { :; }

# Packages without which something is left out, one a line with what that is.
optional_packages() {
  has_program mpicc || echo "libopenmpi-dev openmpi-bin: spmm-mpi, one product by many processes"
  if [[ $with_tests == ON ]] && ! has_scipy; then echo "python3-numpy python3-scipy: the tests of the Python package"; fi
}

has_scipy() { { python3 -c 'import numpy, scipy' || /usr/bin/python3 -c 'import numpy, scipy'; } 2>/dev/null; }

# Sets as_root to the words before a command of root's; fails where packages cannot be installed.
declare -a as_root=()
find_root() {
  has_program apt-get || return 1
  as_root=(env DEBIAN_FRONTEND=noninteractive)
  if ((EUID == 0)); then return 0; fi
  as_root=(sudo -n "${as_root[@]}")
  has_program sudo && sudo -n true 2>/dev/null
}

# install_packages PACKAGE...: with "$as_root" before each command. Optional ones are left to the user: MPI is large.
install_packages() {
  "${as_root[@]}" apt-get update || true
  "${as_root[@]}" apt-get install -y --no-install-recommends "$@"
}

ensure_packages() {
  local -a packages=()
  mapfile -t packages < <(missing_packages)
  if ((${#packages[@]} == 0)); then return 0; fi
  local optional
  optional=$(optional_packages | sed 's/^/  /')
  local ask="Needed and not found: ${packages[*]}
(g++ 11 or newer, cmake 3.25 or newer.) Ask the administrator of this machine for
  apt-get install ${packages[*]}
or set CXX, PATH and CMAKE_PREFIX_PATH to where they are, then run this again.${optional:+
Optional, worth asking for at the same time:
$optional}"
  find_root || die "$ask"
  say "installing ${packages[*]} (log: $build/packages.log)"
  mkdir -p "$build"
  run_logged "apt-get" "$build/packages.log" install_packages "${packages[@]}"
  mapfile -t packages < <(missing_packages)
  if ((${#packages[@]} != 0)); then
    die "apt-get has run, and this is still missing or too old: ${packages[*]} (g++ 11, cmake 3.25 or newer are needed)"
  fi
}

# choose_backend CHOICE: --cuda, --cpu, or '' for what this machine has and an earlier choice of build/ leaves open.
choose_backend() {
  case $1 in
    --cuda)
      has_nvcc || die "--cuda: nvcc was not found; install the CUDA toolkit 12 or newer, or set CUDACXX"
      cmake_options+=(-D SPMM_CUDA=ON)
      ;;
    --cpu) cmake_options+=(-D SPMM_CUDA=OFF) ;;
    *)
      if [[ -e $build/CMakeCache.txt ]] || has_gpu; then return 0; fi
      cmake_options+=(-D SPMM_CUDA=OFF)
      if has_nvcc; then
        say "no GPU here: building for the CPU alone; for a GPU (on a login node): bash tools/scripts/${0##*/} --cuda"
      else
        say "no GPU here: building for the CPU alone"
      fi
      ;;
  esac
}

# minutes SECONDS: how many to announce.
minutes() { echo $((($1 + 59) / 60)); }

# Whether the cache of the build says that CUDA is compiled, too.
builds_cuda() { grep -qE '^CMAKE_CUDA_COMPILER:.*=.*nvcc' "$build/CMakeCache.txt"; }

# set_up TARGET...: everything up to the built targets, and ./spmm as a link to the program. The array cmake_options is
# given to cmake; with_tests=ON if the tests are built, too.
declare -a cmake_options=()
cpu_seconds=0 cuda_seconds=0 # of a fresh build, measured on slow cores
with_tests=OFF
set_up() {
  ensure_packages
  mkdir -p "$build"

  local -a options=(-S "$root" -B "$build")
  local is_new=0 # also where tests are added
  grep -qsE "^SPMM_BUILD_TESTS:BOOL=(ON|$with_tests)$" "$build/CMakeCache.txt" || is_new=1
  if [[ ! -e $build/CMakeCache.txt ]]; then
    options+=(-D "CMAKE_BUILD_TYPE=${CMAKE_BUILD_TYPE:-Release}" -D "SPMM_BUILD_TESTS=$with_tests")
    # A newer compiler with new warnings must not keep users from building spmm; continuous integration is strict.
    if [[ -z ${CI:-} ]]; then options+=(-D SPMM_WERROR=OFF); fi
    if has_program ninja; then options+=(-G Ninja); fi
  elif ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
    options+=(--fresh) # the checkout has moved
  fi
  if [[ $with_tests == ON ]]; then options+=(-D SPMM_BUILD_TESTS=ON); fi
  if has_program ccache; then
    options+=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache -D CMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  options+=("${cmake_options[@]}")
  run_logged "cmake" "$build/configure.log" cmake "${options[@]}"
  sed -n -e 's/^-- CUDA: /CUDA: /p' "$build/configure.log"
  optional_packages | sed 's/^/left out for want of /'
  if [[ $* != all ]] && has_program mpicc; then
    say "left out: spmm-mpi, one product by many processes; afterwards: cmake --build build --target spmm_mpi"
  fi

  local jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
  say "building $* with $jobs jobs"
  if ((is_new)); then
    local seconds=$cpu_seconds
    if builds_cuda; then seconds=$((seconds + cuda_seconds)); fi
    say "this takes about $(minutes "$seconds") minutes of processor time, on $jobs cores $(minutes $((seconds / jobs)))"
  fi
  local -a compile=(cmake --build "$build" -j "$jobs" --target "$@")
  if [[ -t 1 ]]; then # Ninja shows each step in one line
    "${compile[@]}" || die "the build failed"
  else
    run_logged "the build" "$build/build.log" "${compile[@]}"
  fi
  ln -sfn build/bin/spmm "$root/spmm"
}
