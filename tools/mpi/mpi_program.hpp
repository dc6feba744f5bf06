// The whole program spmm-mpi.
#pragma once

namespace spmm::mpi {

/// Values: the exit code. Errors: ends the process if the ranks do not end together.
int run_program(int argc, char** argv);

}  // namespace spmm::mpi
