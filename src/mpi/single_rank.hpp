// A distributed product of one rank.
#pragma once

#include <filesystem>

#include "spmm/options.hpp"
#include "spmm/report.hpp"

namespace spmm::mpi {

/// What spmm does, but a second live run with the same output is refused. Errors: as spmm::multiply().
Report multiply_alone(const std::filesystem::path& a, const std::filesystem::path& b, const std::filesystem::path& out,
                      const Options& options);

}  // namespace spmm::mpi
