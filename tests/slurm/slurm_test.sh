#!/usr/bin/env bash
# Real Slurm on this host: controller, two nodes and munge with a configuration and ports of their own, started and stopped
# here. An array of two tasks completes a list; a signalled task goes back to the queue and goes on; a dead node's task
# runs again on the other one. In the end every output has the bytes of single products. Where spmm-mpi was built, one
# product runs on both nodes, by mpirun within an allocation.
# Usage: slurm_test.sh BIN_DIR SOURCE_DIR FAULTY_BIN_DIR (the programs with faults). Exit code 77: skipped.
set -euo pipefail
bin=$1
source_dir=$2
faulty=$3

skip() {
  echo "slurm_test: skipped: $*"
  exit 77
}
for program in slurmctld slurmd munged sbatch scontrol squeue scancel; do
  command -v "$program" > /dev/null || skip "no $program (Debian: slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins)"
done
[[ $(id -u) == 0 ]] || skip "needs root"
address=$(hostname -I | awk '{ print $1 }')
[[ -n $address ]] || skip "no network interface but loopback"

work=$(mktemp -d)
port=$((20000 + RANDOM % 20000))
export SLURM_CONF=$work/slurm.conf
declare -a daemons=()

cleanup() {
  local code=$?
  if ((code != 0 && code != 77)); then tail -n 20 "$work"/*.log "$work"/task-* 2> /dev/null || true; fi
  scancel --full --signal=KILL --user=root > /dev/null 2>&1 || true
  # All of them were started here; controller and nodes end their own helpers when they are asked first.
  local pid
  for pid in "${daemons[@]}"; do kill "$pid" 2> /dev/null || true; done
  for ((look = 0; look < 50; ++look)); do
    kill -0 "${daemons[@]}" 2> /dev/null || break
    sleep 0.1
  done
  for pid in "${daemons[@]}"; do kill -9 "$pid" 2> /dev/null || true; done
  wait "${daemons[@]}" 2> /dev/null || true
  rm -rf "$work" || true
  exit "$code"
}
trap cleanup EXIT

wait_for() {  # SECONDS WHAT COMMAND...; the seconds are those of a machine that does nothing else: ten times as many are waited
  local seconds=$(($1 * 10)) what=$2
  shift 2
  for ((look = 0; look < seconds * 5; ++look)); do
    if "$@"; then return 0; fi
    sleep 0.2
  done
  echo "slurm_test: $what did not come within $seconds s"
  squeue || true
  scontrol show node 2> /dev/null | grep -E 'NodeName|State|Reason' || true
  return 1
}

# ---- munge, controller, two nodes
dd if=/dev/urandom of="$work/munge.key" bs=128 count=1 2> /dev/null
chmod 600 "$work/munge.key"
munged --force --foreground --key-file="$work/munge.key" --socket="$work/munge.sock" --pid-file="$work/munge.pid" \
  --seed-file="$work/munge.seed" --log-file="$work/munge.log" > "$work/munge.out" 2>&1 &
daemons+=($!)
mkdir "$work/state"
cat > "$SLURM_CONF" << END
ClusterName=spmm
SlurmctldHost=$(hostname -s)($address)
SlurmctldPort=$port
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.sock,cred_expire=5
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool.%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdTimeout=6
KillWait=5
ReturnToService=2
MpiDefault=none
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=2
NodeName=n1 NodeHostname=$(hostname -s) NodeAddr=$address Port=$((port + 1)) CPUs=1
NodeName=n2 NodeHostname=$(hostname -s) NodeAddr=$address Port=$((port + 2)) CPUs=1
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
END
wait_for 10 "munge" test -S "$work/munge.sock"
slurmctld -D -c -f "$SLURM_CONF" > "$work/slurmctld.out" 2>&1 &
daemons+=($!)
for node in n1 n2; do
  mkdir "$work/spool.$node"
  setsid slurmd -D -N "$node" -f "$SLURM_CONF" > "$work/slurmd.$node.out" 2>&1 &
  daemons+=($!)
  node_daemon=$!  # of n2 in the end: daemons[3]
done
nodes_are_idle() { [[ $(sinfo -h -N -o '%T' 2> /dev/null | grep -c '^idle$') == 2 ]]; }
wait_for 30 "two idle nodes" nodes_are_idle

# ---- a list, and its outputs without Slurm
source_dir=$(cd "$source_dir" && pwd)
bin=$(cd "$bin" && pwd)
faulty=$(cd "$faulty" && pwd)
cd "$work"
for o in 1 2 3 4; do "$bin/spmm-gen" "$o.bin" --n 256 --m 4 --k 500 --seed "$o" -q; done
mkdir ref out
for a in 1 2 3 4; do
  for b in 1 2 3 4; do
    printf '%s.bin\t%s.bin\tref/%s%s.bin\n' "$a" "$b" "$a" "$b" >> ref.tsv
    printf '%s.bin\t%s.bin\tout/%s%s.bin\n' "$a" "$b" "$a" "$b" >> jobs.tsv
  done
done
"$bin/spmm-batch" --log /dev/null -q ref.tsv

# Tasks run the program through this, which tells whom a dead node takes along.
cat > "$work/batch" << END
#!/bin/sh
echo \$\$ \$PPID > $work/pids.\$SLURMD_NODENAME.\$SLURM_ARRAY_JOB_ID
exec "\$BATCH_PROGRAM" "\$@"
END
chmod +x "$work/batch"
export BATCH_PROGRAM=$bin/spmm-batch

submit() {  # prints the job's number
  sbatch --parsable --array=0-1 --cpus-per-task=1 --gres=none --output="$work/task-%A_%a.log" \
    --export=ALL,SPMM_BATCH="$work/batch" "$source_dir/tools/cluster/spmm-batch.sbatch" jobs.tsv --in-flight 1
}
is_over() { [[ -z $(squeue -h -j "$1" 2> /dev/null) ]]; }
has_outputs() { (($(find out -name '*.bin' | wc -l) >= $1)); }
check_outputs() {
  for file in ref/*.bin; do cmp "$file" "out/${file#ref/}"; done
  [[ $(find out -mindepth 1 | wc -l) == 16 ]] || { echo "unexpected files in out/"; ls -A out; return 1; }
}
forget() {
  rm -rf out jobs.tsv.*.log
  mkdir out
}

echo "== an array completes the list, each job once"
job=$(submit)
wait_for 30 "the end of the array" is_over "$job"
check_outputs
[[ $(cat jobs.tsv.*.log | wc -l) == 16 ]]
grep -l '8 jobs: 8 done' "$work"/task-"${job}"_*.log | wc -l | grep -q '^2$'

echo "== a signalled task goes back to the queue and goes on"
forget
export BATCH_PROGRAM=$faulty/spmm-batch SPMM_BATCH_FAULT=slow:out/  # a second for each job
job=$(submit)
wait_for 30 "the first outputs" has_outputs 3
scancel --batch --signal=TERM "${job}_0"
goes_back() { grep -q 'goes back to the queue' "$work/task-${job}_0.log" 2> /dev/null; }
wait_for 30 "exit code 75" goes_back
wait_for 90 "the end of the array" is_over "$job"
check_outputs
grep -q 'done before' "$work/task-${job}_0.log"
[[ $(cat jobs.tsv.*.log | wc -l) == 16 ]]

echo "== one product on two nodes, by mpirun within an allocation"
# shellcheck source=tests/slurm/mpi_part.sh
if [[ ! -x $bin/spmm-mpi ]]; then
  echo "slurm_test: skipped this part: no spmm-mpi in $bin"
elif ! command -v mpirun > /dev/null; then
  echo "slurm_test: skipped this part: no mpirun (Debian: openmpi-bin)"
else
  source "$source_dir/tests/slurm/mpi_part.sh"
fi

echo "== a dead node's task runs again on the other"
forget
job=$(submit)
wait_for 30 "the first outputs" has_outputs 3
# As a power cut: the node's daemon, and the step, shell and supervisor that the task has written down.
read -r supervisor shell < "$work/pids.n2.$job"
step=$(awk '{ print $4 }' "/proc/$shell/stat")
grep -q slurmstepd "/proc/$step/comm" || { echo "slurm_test: $step is no slurmstepd"; exit 1; }
kill -9 "$node_daemon" "$step" "$shell" "$supervisor"
wait "$node_daemon" 2> /dev/null || true
unset 'daemons[3]'  # its number may be another process's from now on
scontrol update NodeName=n2 State=DOWN Reason=dead  # as Slurm does half a minute later
wait_for 120 "the end of the array" is_over "$job"
check_outputs
echo "slurm_test: all passed"
