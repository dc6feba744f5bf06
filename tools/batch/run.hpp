// A whole run: list, shard, checks, journal, workers, supervisor, report.
#pragma once

#include "tools/batch/options.hpp"

namespace spmm::batch {

/// Runs this process's shard of a list file; returns the exit code. Errors: those of error.hpp.
int run_list(const BatchOptions& options);

/// Runs the jobs that come by standard input.
int run_feed(const BatchOptions& options);

}  // namespace spmm::batch
