#!/usr/bin/env bash
# scipy_bench.py and process_times.py on small cases: scipy_bench_test.sh BIN. Skipped (77) if there is no python3 with SciPy. Times are not examined.
set -euo pipefail

bin=$1
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/tools/scripts
script=$scripts/scipy_bench.py
# shellcheck source-path=SCRIPTDIR source=../python/find_python.sh
source "$(dirname "${BASH_SOURCE[0]}")/../python/find_python.sh"
find_python numpy scipy
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset "${!SPMM_@}"
"$python" "$script" --bin "$bin" --suite quick --runs 1 --work "$work" --json "$work/quick.json"
"$python" - "$work/quick.json" <<'END'
import json
import sys

found = json.load(open(sys.argv[1]))
assert found["schema"] == 1 and found["revision"] and found["date"] and found["scipy"], found
assert len(found["cases"]) == 5, found["cases"]
for case in found["cases"]:
    names = [kernel["kernel"] for kernel in case["kernels"]]
    kind = "scipy-csr" if case["m"] == 1 else "scipy-bsr"
    assert names == ["spmm", kind, kind + "-two"], names
    assert all(kernel["status"] == "ok" and kernel["validated"] for kernel in case["kernels"]), case
END
if "$python" "$script" --bin "$bin" --case nothing 2>/dev/null; then
  echo "an unknown case was taken" >&2
  exit 1
fi
for write in "" --write; do
  "$python" "$scripts/process_times.py" --bin "$bin" --case quick-m8 --backends cpu,auto $write --runs 2 --work "$work" --json "$work/processes.json"
  "$python" - "$work/processes.json" <<'END'
import json
import sys

(case,) = json.load(open(sys.argv[1]))["cases"]
assert [kernel["kernel"] for kernel in case["kernels"]] == ["cpu", "auto"] and case["c_blocks"] > 0, case
assert all(kernel["ms"]["median"] > kernel["total_ms"]["median"] > 0 for kernel in case["kernels"]), case
END
done
