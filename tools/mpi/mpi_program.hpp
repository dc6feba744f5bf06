// The whole program spmm-mpi.
#pragma once

#include "mpi/exchange/communicator.hpp"

namespace spmm::mpi {

/// Values: the exit code. Errors: ends the process if the ranks do not end together.
int run_program(int argc, char** argv, const Policy& policy = {});

}  // namespace spmm::mpi
