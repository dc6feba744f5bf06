# shellcheck shell=bash disable=SC2154
# Sourced by slurm_test.sh: spmm-mpi on the two nodes n1 and n2, which are two machines to Open MPI.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"$bin/spmm-gen" x.bin --n 4096 --m 8 --k 20000 --seed 1 -q
"$bin/spmm-gen" y.bin --n 4096 --m 8 --k 20000 --seed 2 -q
"$bin/spmm-batch" -q - <<< $'x.bin\ty.bin\texpected.bin'
product=("$bin/spmm-mpi" -q --backend cpu --report report.json x.bin y.bin z.bin)

allocated() { salloc -Q --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 "$@"; }
nodes_are_free() { [[ -z $(squeue -h 2> /dev/null) ]] && nodes_are_idle; }
wait_for 30 "two free nodes" nodes_are_free

allocated timeout 600 mpirun -n 2 --bind-to none "${product[@]}" 2> mpi.err || { cat mpi.err; exit 1; }
cmp z.bin expected.bin
[[ $(grep -c '"host":' report.json) == 2 ]]

# The template, as a batch job.
rm z.bin
wait_for 30 "two free nodes" nodes_are_free
job=$(sbatch --parsable --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --gres=none --output="$work/task-mpi-%j.log" \
  --export=ALL,SPMM_MPI="$bin/spmm-mpi",SPMM_LAUNCHER=mpirun "$source_dir/tools/cluster/spmm-mpi.sbatch" \
  -q --backend cpu x.bin y.bin z.bin)
wait_for 60 "the end of the batch job" is_over "$job"
cmp z.bin expected.bin || { cat "$work/task-mpi-$job.log"; exit 1; }

# A failing rank of the second node ends both with one message and the documented code; the old output stays.
echo old > z.bin
wait_for 30 "two free nodes" nodes_are_free
code=0
SPMM_MPI_FAULT=read-eio:1:36 allocated timeout 600 \
  mpirun -n 2 --bind-to none "$faulty/spmm-mpi" "${product[@]:1}" 2> mpi.err || code=$?
[[ $code == 74 && $(grep -c '^spmm-mpi: error: .*\[rank 1 of 2 on ' mpi.err) == 1 ]] || { echo "code $code"; cat mpi.err; exit 1; }
[[ $(cat z.bin) == old && ! -e .z.bin.spmm-mpi.tmp ]]

# A killed rank ends the other one within 5 s.
"$bin/spmm-gen" large.bin --n 262144 --m 8 --k 400000 -q
wait_for 30 "two free nodes" nodes_are_free
allocated timeout 600 mpirun -n 2 --bind-to none "$bin/spmm-mpi" -q --backend cpu large.bin large.bin z.bin 2> mpi.err &
run=$!
wait_for 20 "the temporary file" test -e .z.bin.spmm-mpi.tmp
ranks_of_run() { pgrep -f "^$bin/spmm-mpi -q --backend cpu large.bin large.bin z.bin" || true; }
kill -9 "$(ranks_of_run | tail -n 1)"
ranks_are_gone() { [[ -z $(ranks_of_run) ]]; }
wait_for 5 "the end of the other rank" ranks_are_gone
code=0
wait "$run" || code=$?
[[ $code != 0 && $(cat z.bin) == old ]] || { echo "code $code"; cat mpi.err; exit 1; }
rm -f .z.bin.spmm-mpi.tmp

# Tasks that do not see each other are refused: by Open MPI, which finds no PMI, and by spmm-mpi, where MPI starts all
# the same, as others do, here without the variables by which Open MPI knows Slurm. Plain spmm is a product for each task.
wait_for 30 "two free nodes" nodes_are_free
code=0
timeout 600 srun --nodes=2 --ntasks=2 --mpi=none "${product[@]}" 2> mpi.err || code=$?
[[ $code != 0 && $(cat z.bin) == old ]] || { echo "code $code"; cat mpi.err; exit 1; }
wait_for 30 "two free nodes" nodes_are_free
code=0
# shellcheck disable=SC2016  # the task's own variables
timeout 600 srun --nodes=2 --ntasks=2 --mpi=none sh -c \
  'exec env -i PATH="$PATH" SLURM_NTASKS="$SLURM_NTASKS" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$@"' \
  sh "${product[@]}" 2> mpi.err || code=$?
[[ $code == 2 && $(grep -c 'says 2 tasks' mpi.err) -ge 1 ]] || { echo "code $code"; cat mpi.err; exit 1; }
[[ $(cat z.bin) == old ]]
# shellcheck disable=SC2016  # the task's own number
timeout 600 srun --nodes=2 --ntasks=2 --mpi=none sh -c "$bin"'/spmm -q --backend cpu x.bin y.bin each$SLURM_PROCID.bin'
cmp each0.bin expected.bin
cmp each1.bin expected.bin
