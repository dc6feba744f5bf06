// spmm-mpi: one product by many processes.
#include "tools/mpi/mpi_program.hpp"

int main(int argc, char** argv) {
  return spmm::mpi::run_program(argc, argv);
}
