#!/usr/bin/env bash
# Builds everything and runs the tests, all but the slow ones.
#   bash tools/scripts/test.sh [--cuda | --cpu] [--slow | --all] [ARGUMENTS OF CTEST]
#   --cuda, --cpu  as of demo.sh
#   --slow         only the slow ones: those that build the library again, and long sweeps
#   --all          both
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

backend=''
which=quick
while (($#)); do
  case $1 in
  --cuda | --cpu) backend=$1 ;;
  --slow | --all) which=${1#--} ;;
  *) break ;;
  esac
  shift
done
choose_backend "$backend"

more_packages() {
  has_header catch2/catch.hpp catch2/catch_all.hpp || echo catch2
  has_program python3 || echo python3 # tests of programs
}
if ! has_scipy && find_root; then
  say "installing python3-numpy python3-scipy (log: $build/scipy.log)"
  mkdir -p "$build"
  install_packages python3-numpy python3-scipy >"$build/scipy.log" 2>&1 || true # without them some tests are left out
fi

with_tests=ON cpu_seconds=250 cuda_seconds=600
set_up all
cd "$build"
case $which in
quick)
  chosen=(-LE slow)
  say "slow tests are left out ($(ctest -N -L slow | sed -n 's/^ *Test *#[0-9]*: //p' | tr '\n' ' ')): --all runs them, too"
  ;;
slow) chosen=(-L slow) ;;
all) chosen=() ;;
esac
declare -A known=([quick]=4 [slow]=25 [all]=28) # minutes on two cores
if (($# == 0)); then say "the tests take about ${known[$which]} minutes on two cores"; fi
code=0
ctest --output-on-failure -j "$(nproc)" "${chosen[@]}" "$@" || code=$?
log=Testing/Temporary/LastTest.log
if [[ $log -nt configure.log ]]; then
  awk '/^[0-9]+\/[0-9]+ Testing: / { test = $3 }
    !/^Command: |^Skip regular / && sub(/^.*skipped[a-z ]*: /, "") { if (!n++) print "\nSkipped, with the reason:"; print "  " test ": " $0 }' "$log"
fi
exit "$code"
