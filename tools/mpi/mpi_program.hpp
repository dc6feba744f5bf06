// The whole program spmm-mpi.
#pragma once

#include "dist/communicator.hpp"

namespace spmm::dist {

/// Values: the exit code. Errors: ends the process if the ranks do not end together.
int run_program(int argc, char** argv, const Policy& policy = {});

}  // namespace spmm::dist
