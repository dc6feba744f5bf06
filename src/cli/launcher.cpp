// The number of tasks that launchers announce in variables.
#include "cli/launcher.hpp"

#include <span>
#include <string_view>

#include "base/text.hpp"

namespace spmm::cli {
namespace {

/// Variables of a launcher: the number of tasks, and which of them this one is.
struct Launcher {
  const char* size;
  const char* rank;
};

constexpr Launcher kLaunchers[] = {{.size = "OMPI_COMM_WORLD_SIZE", .rank = "OMPI_COMM_WORLD_RANK"},
                                   {.size = "PMI_SIZE", .rank = "PMI_RANK"},
                                   {.size = "SLURM_STEP_NUM_TASKS", .rank = "SLURM_PROCID"},
                                   {.size = "SLURM_NTASKS", .rank = "SLURM_PROCID"}};  // also in a batch script

/// The innermost launcher, if it has started several tasks, else null: mpirun -n 1 within an allocation of many tasks
/// is one process on purpose.
const Launcher* several_tasks(std::span<const Launcher> launchers, const Environment& environment) {
  for (const Launcher& launcher : launchers) {
    const char* const value = environment(launcher.size);
    if (value == nullptr || *value == '\0') continue;
    return std::strtol(value, nullptr, 10) > 1 ? &launcher : nullptr;
  }
  return nullptr;
}

}  // namespace

std::string launcher_complaint(int size, const Environment& environment) {
  const Launcher* const launcher = size > 1 ? nullptr : several_tasks(kLaunchers, environment);
  if (launcher == nullptr) return "";
  return text("MPI sees 1 rank where ", launcher->size, " says ", environment(launcher->size), " tasks");
}

std::string lone_process_warning(const Environment& environment) {
  // SLURM_NTASKS says nothing here: a batch script that starts one process has it as well.
  const std::span<const Launcher> of_processes = std::span(kLaunchers).first(3);
  const Launcher* const launcher = several_tasks(of_processes, environment);
  if (launcher == nullptr) return "";
  const char* const rank = environment(launcher->rank);
  if (rank != nullptr && std::string_view(rank) != "0") return "";
  return text(launcher->size, " says ", environment(launcher->size),
              " processes, and each of them computes its product alone; spmm-mpi shares one product between them");
}

}  // namespace spmm::cli
