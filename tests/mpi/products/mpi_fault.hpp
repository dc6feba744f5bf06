// Faults on request, so that tests see how the ranks take them.
#pragma once

namespace spmm::test {

/// SPMM_MPI_FAULT="enospc:R:N": all writes of rank R but the first N find no space. "write-eio:R:N" and "read-eio:R:N":
/// its writes, or reads, fail from there on. "stop-write:R:N", "stop-read:R:N", "stop-rename:R:N": it stops (SIGSTOP)
/// before the next one, once. "blocks:R:N": a file holds N blocks at most. Nothing without the variable.
void inject_fault(int rank);

}  // namespace spmm::test
