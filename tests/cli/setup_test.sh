#!/usr/bin/env bash
# What demo.sh and test.sh say before and while they build, by stand-ins for the programs that they call: setup_test.sh SOURCE.
set -euo pipefail
source_dir=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tools/scripts" "$work/stubs" "$work/include/nlohmann"
cp "$source_dir"/tools/scripts/{setup,demo,test}.sh "$work/tools/scripts/"
for tool in bash env sed grep head tail sort tr cat mkdir rmdir rm ln nproc sleep dirname printf awk stat mktemp; do
  ln -s "$(command -v "$tool")" "$work/stubs/$tool"
done

# stub NAME BODY
stub() {
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$work/stubs/$1"
  chmod +x "$work/stubs/$1"
}
stub c++ 'exit 0'
stub ninja 'exit 0'
stub ctest 'mkdir -p Testing/Temporary; printf "%s\n" "1/2 Testing: one_test" "Command: echo skipped: no" "one: skipped: no device" \
  "Skip regular expression found in output. Regex=[skipped: ]" \
  "2/2 Testing: two_test" "well" >Testing/Temporary/LastTest.log; echo "ctest $*"; exit 8'
stub cmake 'case $1 in
--version) echo "cmake version 3.25.1" ;;
--build) echo "[1/1] Building CXX object src/file.cpp.o" ;;
*) echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/CMakeCache.txt; [[ $* != *TESTS=ON* ]] || echo "SPMM_BUILD_TESTS:BOOL=ON" >>build/CMakeCache.txt; echo "configured with $*" ;;
esac'

failures=0
# says WHAT TEXT PATTERN
says() {
  if grep -qE -- "$3" <<<"$2"; then return 0; fi
  printf 'FAILED: %s: nothing like "%s" in\n%s\n' "$1" "$3" "$2"
  failures=1
}
run() { (cd "$work" && env -i HOME="$work" PATH="$work/stubs" CPLUS_INCLUDE_PATH="$work/include" "$@" 2>&1) || true; }

# Without apt-get: what to ask for; nothing is left.
if [[ ! -e /usr/include/cxxopts.hpp && ! -e /usr/local/include/cxxopts.hpp ]]; then
  says "a missing package" "$(run bash tools/scripts/demo.sh --cpu)" 'apt-get install .*libcxxopts-dev'
fi
mv "$work/stubs/cmake" "$work/cmake"
answer=$(run bash tools/scripts/demo.sh --cpu)
says "a missing program" "$answer" 'Ask the administrator'
says "a missing program" "$answer" '^  apt-get install .*cmake'
if [[ -e $work/build ]]; then echo "FAILED: an empty build/ stays" && failures=1; fi
says "optional packages" "$answer" "  libopenmpi-dev.*: .*spmm-mpi"
mv "$work/cmake" "$work/stubs/cmake"

touch "$work/include/cxxopts.hpp" "$work/include/nlohmann/json.hpp"
answer=$(run bash tools/scripts/demo.sh --cpu)
says "the time" "$answer" '^this takes about [0-9]+ minutes of processor time'
says "what is left out" "$answer" '^left out for want of libopenmpi-dev'
if ! grep -q 'SPMM_CUDA=OFF' "$work/build/configure.log"; then echo "FAILED: --cpu asks for CUDA" && failures=1; fi
if ! grep -q 'SPMM_BUILD_TESTS=OFF' "$work/build/configure.log"; then echo "FAILED: the demonstration wants the tests" && failures=1; fi

stub mpicc 'exit 0'
says "how to build spmm-mpi" "$(run bash tools/scripts/demo.sh --cpu)" '^left out: spmm-mpi,.*: cmake --build build --target spmm_mpi$'

mkdir -p "$work/include/catch2"
touch "$work/include/catch2/catch.hpp"
answer=$(run bash tools/scripts/test.sh --cpu -R x)
says "the usual tests" "$answer" 'ctest .*-LE slow -R x$'
says "the time to build tests after the demonstration" "$answer" '^this takes about [0-9]+ minutes'
says "reasons of skipped tests" "$(tail -n 1 <<<"$answer")" '^  one_test: no device$'
if (cd "$work" && env -i PATH="$work/stubs" CPLUS_INCLUDE_PATH="$work/include" bash tools/scripts/test.sh >/dev/null 2>&1) || (($? != 8)); then
  echo "FAILED: the exit code is not that of ctest" && failures=1
fi
answer=$(run bash tools/scripts/test.sh --cpu)
says "the time of the tests" "$answer" '^the tests take about [0-9]+ minutes'
if grep -q '^this takes' <<<"$answer"; then echo "FAILED: a second build takes as long" && failures=1; fi
if ! { python3 -c 'import numpy, scipy' || /usr/bin/python3 -c 'import numpy, scipy'; } 2>/dev/null; then
  says "tests that are left out" "$answer" '^left out for want of python3-numpy python3-scipy'
  stub apt-get 'echo "$*" >>"$HOME/apt.log"'
  answer=$(run bash tools/scripts/test.sh --cpu)
  if ((EUID == 0)) && ! grep -q 'install .*python3-numpy python3-scipy' "$work/apt.log"; then
    printf 'FAILED: SciPy is not installed:\n%s\n' "$answer" && failures=1
  fi
  rm "$work/stubs/apt-get"
fi
says "the slow tests" "$(run bash tools/scripts/test.sh --cpu --slow)" 'ctest .*-L slow$'
answer=$(run bash tools/scripts/test.sh --cpu --all)
says "all tests" "$answer" 'ctest --output-on-failure -j [0-9]+$'
if [[ ! -x /usr/local/cuda/bin/nvcc && ! -x /opt/cuda/bin/nvcc ]]; then
  says "--cuda without nvcc" "$(run bash tools/scripts/demo.sh --cuda)" 'nvcc was not found'
fi
exit "$failures"
