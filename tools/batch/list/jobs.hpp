// The list of jobs: one product a line, and what may be said about each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spmm/options.hpp"
#include "spmm/plan.hpp"

namespace spmm::batch {

/// How one job runs; the command line gives the defaults, key=value columns of its line override them.
struct JobOptions {
  Backend backend = Backend::automatic;
  std::string kernel = "auto";
  std::uint64_t verify_blocks = 0;  ///< cli::kVerifyFull: a proof of the whole result
  bool transpose_a = false;
  bool transpose_b = false;
  RowRange rows{};
  bool durable = false;
  bool no_clobber = false;
  OnSaturation on_saturation = OnSaturation::report;
  double timeout_s = 0;       ///< 0 = none
  std::uint64_t retries = 1;  ///< further attempts, alone in a worker, after a failure that may pass
};

/// One product. Paths are absolute.
struct Job {
  std::uint64_t line = 0;  ///< in the list, from 1
  std::string a{}, b{}, out{};
  JobOptions options{};
  std::uint64_t cost_micro = 1'000'000;  ///< the cost= column in millionths
};

/// Where the lines of a list come from.
struct ListPlace {
  std::string name{};    ///< for messages
  std::string folder{};  ///< absolute; relative paths of the list start there
};

struct JobList {
  std::vector<Job> jobs;
  bool has_costs = false;
  std::vector<std::string> problems;  ///< of lines that are not understood, the first kMaxProblems of them
  std::uint64_t num_problems = 0;
};

/// So many problems of a list are shown.
inline constexpr std::uint64_t kMaxProblems = 20;

/// "A<tab>B<tab>OUT[<tab>key=value]...": nothing for an empty line or a comment (#).
/// Errors: FormatError that names list and line.
std::optional<Job> parse_job_line(std::string_view line, std::uint64_t number, const ListPlace& place,
                                  const JobOptions& defaults);

/// A whole list. Values: a pure function of the text; it reads no file.
JobList parse_job_list(std::string_view text, const ListPlace& place, const JobOptions& defaults);

/// A list without a line: what should write it has failed. Errors: FormatError.
[[noreturn]] void throw_empty(const std::string& list);

/// Errors: InputError (it was deleted).
std::string working_folder();

/// Absolute path without "//", "/./" and "/../" (links are not followed).
std::string absolute_path(std::string_view path, const std::string& folder);

/// "0:1000", or "1000:" for all from there on.
std::string rows_text(RowRange rows);

/// Seconds from "30", "1.5", "30s", "5m", "2h", "1d". Errors: UsageError that names `where`.
double parse_seconds(const std::string& text, const std::string& where);

}  // namespace spmm::batch
