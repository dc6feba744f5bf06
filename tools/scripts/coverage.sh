#!/usr/bin/env bash
# Line coverage of src without the CUDA backend, by gcov: builds the preset coverage, runs tests, prints the figures.
#   bash tools/scripts/coverage.sh                  all tests
#   bash tools/scripts/coverage.sh -L unit          arguments go to ctest
#   SPMM_COVERAGE_TARGETS="unit_io_tests" bash tools/scripts/coverage.sh -R unit_io    builds only these
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

for program in cmake gcov python3; do
  command -v "$program" > /dev/null || { echo "coverage.sh: $program is missing" >&2; exit 77; }
done
cmake --preset coverage > /dev/null
read -ra targets <<< "${SPMM_COVERAGE_TARGETS:-}"
nice cmake --build --preset coverage ${targets[@]+--target "${targets[@]}"}
find build-coverage -name '*.gcda' -delete
failed=0
nice ctest --test-dir build-coverage --output-on-failure "$@" || failed=$?
python3 tools/scripts/line_coverage.py build-coverage
exit "$failed"
