// Failed jobs: what their exit codes say about trying again.
#pragma once

namespace spmm::batch {

/// Whether the same job may succeed another time: not what its files or its command are to blame for.
bool may_pass(int exit_code);

/// Whether the machine is to blame and not the job: no space, no permission, a folder that is gone, too little memory.
bool is_of_machine(int exit_code);

/// Whether the worker that reported it can no longer be trusted: a fault on a device poisons the process's context.
bool breaks_worker(int exit_code);

}  // namespace spmm::batch
