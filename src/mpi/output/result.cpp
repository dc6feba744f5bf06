// The choice between one file and parts.
#include "mpi/output/result.hpp"

#include "mpi/output/one_file.hpp"
#include "mpi/output/parts.hpp"

namespace spmm::mpi {

std::unique_ptr<ResultOutput> make_output(const Communicator& ranks, const Options& options, std::uint32_t num_parts,
                                          std::uint64_t limit_bytes) {
  const FileSinkOptions how{.durable = options.durable, .no_clobber = options.no_clobber};
  if (num_parts == 0) return std::make_unique<OneFileOutput>(ranks, how, limit_bytes);
  return std::make_unique<PartsOutput>(ranks, how, num_parts, options.num_threads);
}

}  // namespace spmm::mpi
