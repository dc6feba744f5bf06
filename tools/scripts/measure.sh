#!/usr/bin/env bash
# Measures what the published tables show and leaves one JSON file a step; tools/scripts/tables.py writes the tables.
set -euo pipefail

usage() {
  cat <<'END'
usage: bash tools/scripts/measure.sh [--bin DIR] [--out DIR] [--work DIR] STEP...

Measures on this machine, with programs that may have been built on another one. Every result is compared with that of a
kernel that shares no code with it. Copy the files to data/measurements/, then run python3 tools/scripts/tables.py.

  speed      cases S1 to S6: device stages                                                       gpu-speed.json
  reference  the kernels that the fast ones are compared with                                    gpu-reference.json
  density    time against the share of stored blocks, m = 4 and 8                                gpu-density.json
  shapes     skewed shapes beside even ones of equal work; other ranges of values                gpu-shapes.json
  dense      dense products of spmm-dense                                                        gpu-dense-TYPE.json
  patterns   stencils, graphs, groups, bands and padded sides, beside even products              gpu-patterns.json
  sides      every block side from 1 to 64                                                       gpu-sides.json
  kernels    every kernel on every case of the above                                             gpu-kernels.json
  cusparse   cuSPARSE and Warp beside spmm; PYTHONPATH and SPMM_LIBRARY name the Python package  gpu-cusparse.json
  scipy      SciPy beside the CPU backend                                                        cpu-scipy.json
  processes  whole processes on the GPU, on the CPU, and where auto takes them    processes.json, gpu-processes.json
  cpu        cases P1 to P5 on two threads of the CPU                                            cpu-speed.json

  --bin      folder of spmm, spmm-bench and spmm-dense (build/bin)
  --out      folder for the files (build/measurements)
  --work     folder for matrices, about 30 GB for all steps (a temporary one); results of whole processes go there, too
END
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [[ $PWD == "$root" ]]; then root=.; fi # the files hold the commands, which need not tell where the checkout lies
bin=$root/build/bin out=$root/build/measurements work=
steps=()
while (($# > 0)); do
  case $1 in
    --bin | --out | --work) declare "${1#--}=$2"; shift ;;
    -*) usage; exit 2 ;;
    *) steps+=("$1") ;;
  esac
  shift
done
if ((${#steps[@]} == 0)); then usage; exit 2; fi
mkdir -p "$out"
if [[ -z $work ]]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi
python=python3
if ! "$python" -c 'import scipy' 2> /dev/null && [[ -x /usr/bin/python3 ]]; then python=/usr/bin/python3; fi
library=${SPMM_LIBRARY:-}
unset "${!SPMM_@}" # defaults, whatever the environment says

# bench FILE OPTIONS...: one measurement. Inputs are shared by the steps.
bench() { "$bin/spmm-bench" --suites "$root/data/suites.json" --work "$work" --json "$out/$1" "${@:2}"; }
# script NAME FILE OPTIONS...: one of another library.
script() {
  SPMM_LIBRARY=$library "$python" "$root/tools/scripts/$1.py" --suites "$root/data/suites.json" --bin "$bin" --work "$work" \
    --json "$out/$2" "${@:3}"
}

measure() {
  case $1 in
    speed) bench gpu-speed.json --backend cuda --suite S ;;
    reference) bench gpu-reference.json --backend cuda --case S1,S2,S5,S6 --kernel two-pointer,binary-search,host-driven --runs 3 --max-seconds 15 ;;
    density) bench gpu-density.json --backend cuda --suite density-m4,density-m8 --kernel two-pointer,rows,dense-tiled,dense-tensor --runs 2 --max-seconds 10 ;;
    shapes) bench gpu-shapes.json --backend cuda --runs 2 --suite values,shapes,shapes-fit --max-seconds 10 ;;
    dense)
      for type in f32 i32 u16; do
        "$bin/spmm-dense" --type "$type" --shape 8192,16384 --runs 2 --json "$out/gpu-dense-$type.json"
      done
      ;;
    patterns) bench gpu-patterns.json --backend cuda --suite patterns --runs 2 --max-seconds 15 ;;
    sides) bench gpu-sides.json --backend cuda --suite all-sides --runs 3 ;;
    kernels) bench gpu-kernels.json --backend cuda --suite S,patterns,density-m8,density-m4,shapes-fit,shapes,values,all-sides --kernel all --runs 2 --max-seconds 20 ;;
    cusparse) script cusparse_bench gpu-cusparse.json --suite peers --case S1,S2,S5,rmat-1e6-m1,uniform-m2,uniform-m3,stencil-27-m1 ;;
    scipy) script scipy_bench cpu-scipy.json --suite P,cpu-patterns --runs 3 --max-seconds 20 ;;
    processes)
      script process_times processes.json --suite P,cpu-patterns,patterns --case S1,S2,S5 --runs 2 --max-seconds 6 &&
        script process_times gpu-processes.json --suite S --backends cuda --write
      ;;
    cpu) bench cpu-speed.json --backend cpu --threads 2 --suite P ;;
    *) usage; exit 2 ;;
  esac
}

failed=()
for step in "${steps[@]}"; do
  printf '== %s\n' "$step"
  measure "$step" || failed+=("$step") # the other steps run all the same
done
if ((${#failed[@]} != 0)); then
  printf 'measure.sh: error: failed or found a wrong result: %s\n' "${failed[*]}" >&2
  exit 1
fi
