// A product of one rank, with the lock of its output.
#include "mpi/single_rank.hpp"

#include <memory>

#include "base/run/parallel.hpp"
#include "engine/output_checks.hpp"
#include "engine/product/product.hpp"
#include "io/files/paths.hpp"
#include "io/parts/sink.hpp"
#include "mpi/output/shared_file.hpp"
#include "spmm/engine.hpp"
#include "spmm/io.hpp"

namespace spmm::mpi {
namespace {

namespace fs = std::filesystem;

/// The folder is the lock.
Report multiply_in_parts(const fs::path& path_a, const fs::path& path_b, const fs::path& out, const Options& options) {
  wanted_backend(options);  // rejects unknown names before any file is opened
  const std::unique_ptr<Source> a = open_file_source(path_a);
  const std::unique_ptr<Source> b = open_file_source(path_b);
  check_shapes(*a, *b);
  for (const fs::path& input : {path_a, path_b}) {
    check_output_is_no_input(input, out);
    check_output_holds_no_input(input, out);
  }
  const std::uint32_t num_parts = wanted_parts(plan::expected_statistics(a->header(), b->header()), options);
  io::FileSinkTuning tuning = io::fastest_tuning(usable_cores(), 1, num_parts);
  tuning.other_runs = io::OtherRuns::refused;
  const FileSinkOptions how{.durable = options.durable, .no_clobber = options.no_clobber};
  const auto folder = io::open_tuned_parts_sink(out, a->header().m, num_parts, how, tuning);
  Engine engine(options);
  Report report = engine.multiply(*a, *b, *folder, options);
  report.parts = folder->parts();
  report.plan.num_parts = num_parts;
  return report;
}

}  // namespace

Report multiply_alone(const fs::path& a, const fs::path& b, const fs::path& out, const Options& options) {
  if (options.num_parts != 0) return multiply_in_parts(a, b, out, options);
  read_header(a);
  read_header(b);
  SharedOutput lock;
  if (!same_file(a, out) && !same_file(b, out)) lock.create(out, {.no_clobber = options.no_clobber});
  Engine engine(options);
  return engine.multiply(a, b, out, options);
}

}  // namespace spmm::mpi
