// The one output file of all ranks, on file systems that lack a call.
#include "mpi/shared_file.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "support/wrapped_calls.hpp"

namespace {

using namespace spmm;

}  // namespace

TEST_CASE("an output that must not replace another is published where names cannot be exchanged, as on NFS") {
  for (const int refusal : {0, EINVAL, ENOSYS}) {
    const test::CallsRestored table;
    static int error;
    error = refusal;
    if (refusal != 0) {
      test::system_calls.renameat2 = [](int, const char*, int, const char*, unsigned) {
        errno = error;
        return -1;
      };
    }
    const test::TemporaryFolder folder;
    const MatrixHeader header{.n = 4, .m = 4, .num_blocks = 0};
    {
      mpi::SharedOutput output;
      output.create(folder.file("c.bin"), {.no_clobber = true});
      output.finish(header, kHeaderBytes);
      output.publish();
    }
    CHECK(std::filesystem::file_size(folder.file("c.bin")) == kHeaderBytes);
    CHECK(folder.names().size() == 1);
    {
      mpi::SharedOutput late;
      std::filesystem::remove(folder.file("c.bin"));
      late.create(folder.file("c.bin"), {.no_clobber = true});
      late.finish(header, kHeaderBytes);
      std::ofstream(folder.file("c.bin")) << "came meanwhile";
      CHECK_THROWS_AS(late.publish(), OutputError);
    }
    CHECK(std::filesystem::file_size(folder.file("c.bin")) == 14);
    CHECK(folder.names().size() == 1);
  }
}
