// spmm-mpi whose faults the test's variables set: mpi_fault.hpp.
#include <cstdlib>

#include "mpi/products/mpi_fault.hpp"
#include "tools/mpi/mpi_program.hpp"

int main(int argc, char** argv) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank != nullptr) spmm::test::inject_fault(std::atoi(rank));
  return spmm::mpi::run_program(argc, argv);
}
