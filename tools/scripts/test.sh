#!/usr/bin/env bash
# Builds everything and runs all tests. Arguments go to ctest: bash tools/scripts/test.sh -L unit
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=setup.sh
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

set_up all
cd "$build"
exec ctest --output-on-failure -j "$(nproc)" "$@"
