#!/usr/bin/env bash
# Measures what the published tables show and leaves one JSON file a step; tools/scripts/tables.py writes the tables.
set -euo pipefail

usage() {
  cat <<'END'
usage: bash tools/scripts/measure.sh [--bin DIR] [--out DIR] [--work DIR] [STEP...]
       bash tools/scripts/measure.sh --cpu [--bin DIR] [--out DIR] [--work DIR]

Measures on this machine, with programs that may have been built on another one; python3 (for dense) needs no packages.
Every result is compared with that of a baseline kernel; patterns and sides compare checksums, as some results are larger
than a disk. Without STEP: speed, reference, density, shapes, dense, patterns and sides. Copy the files to
data/measurements/, then run python3 tools/scripts/tables.py. patterns-rest has those of patterns with the largest
results, for machines that are lent for a short time; a table takes a case that both files have from the second.

  speed      cases S1 to S6: device stages, whole processes, what reading, writing and starting takes  gpu-speed.json
  reference  the kernels that the fast ones are compared with                                         gpu-reference.json
  density    time against the share of stored blocks, m = 4 and 8                                     gpu-density.json
  shapes     skewed shapes beside even ones of equal work; other ranges of values                     gpu-shapes.json
  dense      dense products of spmm-dense                                                             gpu-dense.json
  patterns   stencils, graphs, groups, bands and sides that need padding, beside even products        gpu-patterns.json
  patterns-rest  of them, without the even products: graphs, stencils, groups, bands, m = 4 to 48 gpu-patterns-rest.json
  sides      every block side from 1 to 64                                                            gpu-sides.json
  cusparse   cuSPARSE by CuPy (and Warp) beside spmm: patterns with sides up to 4 and some of S; the   gpu-cusparse.json
             Python package spmm must be installed, or PYTHONPATH and SPMM_LIBRARY name one
  scipy      SciPy beside the CPU backend                                                             cpu-scipy.json

  --cpu      cases P1 to P5 on two threads of the CPU, and nothing else                               cpu-speed.json
  --bin      folder of spmm, spmm-bench and spmm-dense (build/bin)
  --out      folder for the files (build/measurements)
  BENCH_OPTIONS (environment): more options for spmm-bench, such as --no-partners
  --work     folder for matrices, about 30 GB for all steps (a temporary one); results go there as well, so it decides
             how fast whole processes are
END
}

# Small ones first: who stops the step early has those.
cusparse_cases=rmat-1e6-m1,stencil-27-m1,uniform-m2,S2,rmat-4e6-m1,uniform-m3,stencil-27-m3,S1,S5,band-m4,uniform-m1,rmat-4e6-m4
rest_cases=band-m8,band-m4,groups-m48,groups-m8,stencil-27-m8,saddle-point-m8,S3-max1000,S4-max1000
rest_cases+=,arrow-m8,rmat-5e5-m16,rmat-4e6-m4
python=python3
if ! "$python" -c 'import scipy' 2> /dev/null && [[ -x /usr/bin/python3 ]]; then python=/usr/bin/python3; fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [[ $PWD == "$root" ]]; then root=.; fi # the files hold the commands, which need not tell where the checkout lies
bin=$root/build/bin
out=$root/build/measurements
work=
steps=()
while (($# > 0)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --bin) bin=$2; shift ;;
    --out) out=$2; shift ;;
    --work) work=$2; shift ;;
    --cpu) steps+=(cpu) ;;
    speed | reference | density | shapes | dense | patterns | patterns-rest | sides | cusparse | scipy) steps+=("$1") ;;
    *) printf 'unknown argument: %s\n' "$1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
if ((${#steps[@]} == 0)); then steps=(speed reference density shapes dense patterns sides); fi
mkdir -p "$out"
if [[ -z $work ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
library=${SPMM_LIBRARY:-}
unset "${!SPMM_@}" # defaults, whatever the environment says

read -r -a more <<< "${BENCH_OPTIONS:-}"

# bench FILE OPTIONS...: one measurement. Inputs are shared by the steps.
bench() {
  local file=$1
  shift
  "$bin/spmm-bench" --suites "$root/data/suites.json" --work "$work" --json "$out/$file" "$@" "${more[@]}"
}

measure() {
  case $1 in
    speed) bench gpu-speed.json --backend cuda --suite S --runs 5 --e2e ;;
    reference)
      # S3 and S4: gpu-speed.json has the run of two-pointer that the others are compared with
      bench gpu-reference.json --backend cuda --case S1,S2,S5,S6 --kernel two-pointer,binary-search,host-driven --runs 3 \
        --filter-seconds 0.5 --max-seconds 15
      ;;
    density)
      bench gpu-density.json --backend cuda --suite density-m4,density-m8 --kernel two-pointer,rows,dense-tiled,dense-tensor \
        --runs 2 --filter-seconds 0.5
      ;;
    shapes)
      bench gpu-shapes.json --backend cuda --runs 2 --suite values \
        --case power-law-S1,power-law-S2,heavy-row,heavy-column,hub,banded,diagonal-1e6,m5,m16,m32,m64
      ;;
    dense)
      python3 "$root/tools/scripts/dense_tables.py" --bin "$bin" --out "$work/dense" --runs 2 --squares 8192,16384 &&
        mv "$work/dense/dense.json" "$out/gpu-dense.json"
      ;;
    patterns)
      bench gpu-patterns.json --backend cuda --suite patterns --runs 2 --checksum --baseline other --max-seconds 15 \
        --filter-seconds 3
      ;;
    patterns-rest)
      bench gpu-patterns-rest.json --backend cuda --case "$rest_cases" --no-partners --runs 2 --checksum --baseline other \
        --max-seconds 15 --filter-seconds 3
      ;;
    sides) bench gpu-sides.json --backend cuda --suite all-sides --runs 3 --checksum --baseline other ;;
    cusparse)
      SPMM_LIBRARY=$library python3 "$root/tools/scripts/cusparse_bench.py" --suites "$root/data/suites.json" --bin "$bin" \
        --work "$work" --json "$out/gpu-cusparse.json" --case "$cusparse_cases"
      ;;
    scipy)
      "$python" "$root/tools/scripts/scipy_bench.py" --suites "$root/data/suites.json" --bin "$bin" --work "$work" \
        --json "$out/cpu-scipy.json" --suite P,cpu-patterns --runs 3 --max-seconds 20
      ;;
    cpu) bench cpu-speed.json --backend cpu --threads 2 --suite P --runs 5 --e2e ;;
  esac
}

failed=()
for step in "${steps[@]}"; do
  printf '== %s\n' "$step"
  SECONDS=0
  measure "$step" || failed+=("$step") # the other steps run all the same
  printf -- '-- %s: %d s\n' "$step" "$SECONDS"
done
ls -l "$out"
if ((${#failed[@]} != 0)); then
  printf 'measure.sh: error: failed or found a wrong result: %s\n' "${failed[*]}" >&2
  exit 1
fi
