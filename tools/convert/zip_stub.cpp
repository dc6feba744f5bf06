// A build without libzip.
#include "spmm/error.hpp"
#include "tools/convert/zip_files.hpp"

namespace spmm::tools {
namespace {

[[noreturn]] void throw_without(const std::filesystem::path& path) {
  throw DeviceError(path.string(), "this spmm-convert was built without libzip, which .npz files need",
                    "install libzip-dev and build again, or use .mtx or .npy");
}

}  // namespace

std::unique_ptr<ZipInput> open_zip(const std::filesystem::path& path) {
  throw_without(path);
}

void write_zip(const std::filesystem::path& path, const std::vector<ZipMember>&, bool) {
  throw_without(path);
}

}  // namespace spmm::tools
