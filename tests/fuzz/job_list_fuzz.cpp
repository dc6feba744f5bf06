// Lists of spmm-batch, whole and as they come, and what is said about them on the command line.
#include <fcntl.h>

#include "fuzz/fuzz_support.hpp"
#include "tools/batch/list/jobs.hpp"
#include "tools/batch/list/line_feed.hpp"
#include "tools/batch/options.hpp"

namespace spmm::fuzz {
namespace {

void check_shards(const batch::JobList& list, std::uint64_t count) {
  std::vector<bool> taken(list.jobs.size(), false);
  for (std::uint64_t index = 0; index < count; ++index) {
    for (const std::size_t j : batch::jobs_of_shard(list, {.index = index, .count = count})) {
      require(!taken[j], "shards are disjoint");
      taken[j] = true;
    }
  }
  for (const bool is_taken : taken) require(is_taken, "shards are complete");
}

/// The same list line by line from a descriptor.
std::size_t jobs_of_feed(const std::string& path, const batch::ListPlace& place) {
  const io::Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  batch::LineFeed feed(fd.get());
  std::size_t jobs = 0;
  for (std::uint64_t number = 1; !feed.has_ended();) {
    for (const std::string& line : feed.read_lines()) {
      accepted([&] { jobs += batch::parse_job_line(line, number++, place, {}) ? 1 : 0; });
    }
  }
  return jobs;
}

}  // namespace

void fuzz_job_list(Bytes bytes) {
  static ScratchFile scratch;
  InputBytes in(bytes);
  const std::uint64_t num_shards = 1 + in.below(5);
  const std::string content(text_of(in.rest()));
  const batch::ListPlace place{.name = "jobs.tsv", .folder = "/work"};
  const batch::JobList list = batch::parse_job_list(content, place, {});
  for (const batch::Job& job : list.jobs) {
    require(job.a.starts_with('/') && job.b.starts_with('/') && job.out.starts_with('/'), "paths are absolute");
  }
  require(list.problems.size() <= batch::kMaxProblems && list.problems.size() <= list.num_problems,
          "so many problems are shown");
  check_shards(list, num_shards);
  if (!content.starts_with("\xEF\xBB\xBF")) {
    require(jobs_of_feed(scratch.holding(content), place) == list.jobs.size(), "a feed has the same jobs");
  }
  accepted([&] { batch::parse_seconds(content, "--timeout"); });
}

}  // namespace spmm::fuzz
