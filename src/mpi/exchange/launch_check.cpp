// The number of tasks that launchers announce in variables.
#include "mpi/exchange/launch_check.hpp"

#include <cstdlib>

#include "base/text.hpp"

namespace spmm::mpi {

std::string launcher_complaint(int size, const Environment& environment) {
  if (size > 1) return "";
  // The innermost launcher counts: mpirun -n 1 within an allocation of many tasks is one rank on purpose.
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) {
    const char* const value = environment(name);
    if (value == nullptr || *value == '\0') continue;
    const long tasks = std::strtol(value, nullptr, 10);
    return tasks > 1 ? text("MPI sees 1 rank where ", name, " says ", tasks, " tasks") : "";
  }
  return "";
}

}  // namespace spmm::mpi
