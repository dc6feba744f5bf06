// Lists of spmm-batch, and what is said about them on the command line.
#include "fuzz/fuzz_support.hpp"
#include "tools/batch/batch.hpp"

namespace spmm::fuzz {

void fuzz_job_list(Bytes bytes) {
  const std::string content(text_of(bytes));
  const batch::ListPlace place{.name = "jobs.tsv", .folder = "/work"};
  batch::Problems problems;
  const std::vector<batch::Job> jobs = batch::parse_job_list(content, place, {}, problems);
  for (const batch::Job& job : jobs) {
    require(job.a.starts_with('/') && job.b.starts_with('/') && job.out.starts_with('/'), "paths are absolute");
    const auto again = batch::parse_job_line(batch::job_line(job), 2, {.name = "again", .folder = "/"}, {});
    const bool is_same = again && batch::job_line(*again) == batch::job_line(job);
    require(is_same || job.out.ends_with('\r'), "a job's line is read as it was written");
  }
  require(problems.messages.size() <= batch::Problems::kMaxShown && problems.messages.size() <= problems.count,
          "so many problems are shown");
  accepted([&] { batch::parse_seconds(content, "--timeout"); });
}

}  // namespace spmm::fuzz
