// Outputs that no rename can replace, whatever their permissions: refused by every program before it works.
#include <filesystem>

#include "cli/exit_codes.hpp"
#include "cli/workplace.hpp"
#include "spmm/io.hpp"
#include "support/catch.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using namespace spmm::cli;
namespace fs = std::filesystem;

ProcessResult shell(const std::string& script) {
  return run_process({"/bin/sh", "-c", script});
}

}  // namespace

TEST_CASE("mount points, and files and folders with chattr +a or +i, are refused before the work", "[native]") {
  const Workplace workplace;
  fs::create_directory("folder");
  write_bytes("folder/old.bin", kOldContent);
  REQUIRE(spmm_command({"-q", "--backend", "cpu", "a.bin", "b.bin", "c.bin"}).exit_code == kOk);
  spmm_command({"-q", "--backend", "cpu", "--rows", "0:8", "a.bin", "b.bin", "c0.bin"});
  spmm_command({"-q", "--backend", "cpu", "--rows", "8:", "a.bin", "b.bin", "c1.bin"});
  write_bytes("a.mtx", "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 3\n");
  struct Place {
    const char* make;  ///< $run then runs a program
    const char* clean;
    const char* is_possible;
    const char* out;
    const char* problem;
  };
  const Place places[] = {
      {"unshare -rm sh -c 'mount --bind c.bin old.bin && exec \"$@\"' sh ", ":",
       "unshare -rm sh -c 'mount --bind c.bin old.bin'", "old.bin", "is a mount point"},
      {"chattr +a old.bin; ", "chattr -a old.bin", "chattr +a old.bin", "old.bin", "the existing file is append-only"},
      {"chattr +i old.bin; ", "chattr -i old.bin", "chattr +i old.bin", "old.bin", "the existing file is immutable"},
      {"chattr +a folder; ", "chattr -a folder", "chattr +a folder", "folder/old.bin", "is append-only"},
      {"chattr +a folder; ", "chattr -a folder", "chattr +a folder", "folder/new.bin", "is append-only"},
      {"chattr +i folder; ", "chattr -i folder", "chattr +i folder", "folder/new.bin", "is immutable"},
  };
  const std::string bin = std::string(SPMM_BIN_DIR) + "/";
  for (const Place& place : places) {
    const bool is_possible = shell(place.is_possible).exit_code == 0;
    shell(place.clean);
    if (!is_possible) {
      WARN("not possible here: " << place.is_possible);
      continue;
    }
    const std::string out = place.out;
    for (const std::string& command :
         {"spmm --backend cpu a.bin b.bin " + out, "spmm --backend cpu --report " + out + " a.bin b.bin d.bin",
          "spmm --backend cpu --trace " + out + " a.bin b.bin d.bin", "spmm-gen --n 64 --m 4 --k 3 " + out,
          "spmm-cat c0.bin c1.bin " + out, "spmm-convert a.mtx " + out}) {
      const ProcessResult result = shell(place.make + bin + command);
      shell(place.clean);
      INFO(place.make << command << "\n" << result.err);
      CHECK(result.exit_code == kCannotCreate);
      CHECK(has(result.err, place.problem));
      CHECK(has(result.err, "choose another output path"));
      CHECK(bytes_of("old.bin") == kOldContent);
      CHECK(bytes_of("folder/old.bin") == kOldContent);
      CHECK(names_in("folder").size() == 1);
      CHECK_FALSE(fs::exists("d.bin"));
    }
  }
}
