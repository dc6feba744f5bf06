// A product of one rank, with the lock of its output.
#include "mpi/single_rank.hpp"

#include "io/files/paths.hpp"
#include "mpi/output/shared_file.hpp"
#include "spmm/engine.hpp"
#include "spmm/io.hpp"

namespace spmm::mpi {

namespace fs = std::filesystem;

Report multiply_alone(const fs::path& a, const fs::path& b, const fs::path& out, const Options& options) {
  read_header(a);
  read_header(b);
  SharedOutput lock;
  if (!same_file(a, out) && !same_file(b, out)) lock.create(out, {.no_clobber = options.no_clobber});
  Engine engine(options);
  return engine.multiply(a, b, out, options);
}

}  // namespace spmm::mpi
