// The space that a result needs against what the disk has.
#include "cli/free_space.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/text.hpp"
#include "cli/program.hpp"
#include "engine/output_checks.hpp"
#include "io/files/paths.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy = "free space there, or choose an output path on a larger disk";

fs::path folder_of(const fs::path& out) {
  const fs::path given = out.has_filename() ? out : out.parent_path();  // "parts/" is a folder to be made
  const fs::path folder = io::follow_links(given).parent_path();
  return folder.empty() ? fs::path(".") : folder;
}

struct Expected {
  std::uint64_t result_bytes = 0;
  std::uint64_t scratch_bytes = 0;
};

/// Nothing if that is not known yet.
std::optional<Expected> expected_bytes(const fs::path& a, const fs::path& b, RowRange rows, std::uint64_t free_bytes,
                                       const std::function<std::uint64_t()>& scratch_bytes) {
  try {
    const MatrixHeader of_a = read_header(a);
    const MatrixHeader of_b = read_header(b);
    if (of_a.n != of_b.n || of_a.m != of_b.m) return std::nullopt;
    Expected expected{.result_bytes = expected_result_bytes(of_a, of_b, rows)};
    const std::uint64_t most = (std::uint64_t{of_a.num_blocks} + of_b.num_blocks) * input_record_bytes(of_a.m);
    const bool matters = expected.result_bytes <= free_bytes && most > free_bytes - expected.result_bytes;
    if (matters && scratch_bytes) expected.scratch_bytes = scratch_bytes();
    return expected;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<std::uint64_t> free_bytes_for(const fs::path& out) {
  try {
    struct stat there {};
    if (::stat(out.c_str(), &there) == 0 && S_ISCHR(there.st_mode)) return std::nullopt;
    struct statvfs info {};
    if (::statvfs(folder_of(out).c_str(), &info) != 0 || info.f_blocks == 0) return std::nullopt;
    return std::uint64_t{info.f_bavail} * info.f_frsize;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string space_problem(std::uint64_t expected_bytes, std::uint64_t free_bytes, const std::string& folder) {
  if (expected_bytes <= free_bytes) return "";
  return text("the result takes about ", human_bytes(expected_bytes), " if the blocks are evenly spread, and ", folder,
              " has ", human_bytes(free_bytes), " free");
}

void check_space_for_product(const std::string& program, const fs::path& a, const fs::path& b, const fs::path& out,
                             RowRange rows, bool is_strict, const std::function<std::uint64_t()>& scratch_bytes) {
  const auto free = free_bytes_for(out);
  const auto expected = free ? expected_bytes(a, b, rows, *free, scratch_bytes) : std::nullopt;
  if (!free || !expected) return;
  std::string problem = space_problem(expected->result_bytes + expected->scratch_bytes, *free, folder_of(out).string());
  if (problem.empty()) return;
  if (expected->scratch_bytes != 0) {
    problem += text("; ", human_bytes(expected->scratch_bytes), " of that are a scratch file, which a higher memory ",
                    "limit would not need");
  }
  if (is_strict) throw OutputError(out.string(), problem, kRemedy);
  warn(program, text(out.string(), ": ", problem, " (--strict-space refuses)"));
}

void check_space_for_file(const fs::path& out, std::uint64_t bytes) {
  const auto free = free_bytes_for(out);
  if (!free || bytes <= *free) return;
  throw OutputError(out.string(),
                    text("the file takes ", human_bytes(bytes), ", and ", folder_of(out).string(), " has ",
                         human_bytes(*free), " free"),
                    kRemedy);
}

}  // namespace spmm::cli
