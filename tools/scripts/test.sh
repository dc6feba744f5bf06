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

with_tests=ON cpu_seconds=900 cuda_seconds=600
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
exec ctest --output-on-failure -j "$(nproc)" "${chosen[@]}" "$@"
