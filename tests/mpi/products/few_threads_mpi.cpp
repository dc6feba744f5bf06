// Preloaded: an MPI that serves the first thread alone.
#include <mpi.h>

extern "C" int MPI_Init_thread(int* argc, char*** argv, int wanted, int* provided) {
  const int result = PMPI_Init_thread(argc, argv, wanted, provided);
  *provided = MPI_THREAD_FUNNELED;
  return result;
}
