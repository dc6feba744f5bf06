// Faults on request, so that tests see how the ranks take them.
#pragma once

namespace spmm::dist {

/// SPMM_MPI_FAULT="enospc:R": writes of rank R fail, "eio:R": all but its first reads fail. Nothing without it.
void inject_fault(int rank);

}  // namespace spmm::dist
