// Which GPUs a product hides from CUDA, and how it says that.
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/visible_gpus.hpp"
#include "cli/used_gpus.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using Devices = std::vector<int>;

/// A file of the right length with nothing behind its header.
void write_hollow(const std::string& path, std::uint32_t n, std::uint32_t m, std::uint32_t k) {
  const std::array<std::uint32_t, 3> header = {n, m, k};
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(header.data()), sizeof header);
  REQUIRE(::truncate(path.c_str(), static_cast<off_t>(sizeof header + std::uint64_t{k} * (8 + 2 * m * m))) == 0);
}

struct Wish {
  Devices devices{};
  int device = -1;
  std::optional<int> local_rank{};
  Backend backend = Backend::cuda;
};

/// The devices of 4 that a product uses alone.
Devices used_of_four(const std::string& operand, const Wish& wish) {
  Options options;
  options.backend = wish.backend;
  options.device = wish.device;
  options.devices = wish.devices;
  options.num_threads = 16;
  options.memory_limit_bytes = std::uint64_t{100} << 30;
  return cli::used_gpus({.a = operand, .b = operand, .out = "/dev/null"}, options, 4, wish.local_rank);
}

}  // namespace

TEST_CASE("a product hides the devices that it will not use") {
  const WorkingFolder folder;
  write_hollow("a.bin", 64, 4, 60);
  write_hollow("small.bin", 8192, 8, 100'000);
  write_hollow("large.bin", 1 << 18, 8, 40'000'000);
  CHECK(used_of_four("small.bin", {}) == Devices{0});
  CHECK(used_of_four("small.bin", {.device = 2}) == Devices{2});
  CHECK(used_of_four("small.bin", {.devices = {3, 1}}) == Devices{3, 1});
  CHECK(used_of_four("small.bin", {.device = 2, .backend = Backend::automatic}) == Devices{2});
  CHECK(used_of_four("large.bin", {.device = 1}) == Devices{1});
  CHECK(used_of_four("large.bin", {.local_rank = 6}) == Devices{2});  // a launcher gives each rank one
  CHECK(used_of_four("large.bin", {.local_rank = 3, .backend = Backend::automatic}) == Devices{3});
  // All, none, or what the product itself complains about.
  CHECK(used_of_four("large.bin", {}).empty());
  CHECK(used_of_four("small.bin", {.devices = {kAllDevices}}).empty());
  CHECK(used_of_four("small.bin", {.backend = Backend::cpu}).empty());
  CHECK(used_of_four("a.bin", {.backend = Backend::automatic}).empty());
  CHECK(used_of_four("small.bin", {.devices = {1, 1}}).empty());
  CHECK(used_of_four("small.bin", {.devices = {1}, .device = 1}).empty());
  CHECK(used_of_four("small.bin", {.device = 4}).empty());
  CHECK(used_of_four("missing.bin", {}).empty());
  CHECK(cli::used_gpus({.a = "small.bin", .b = "small.bin", .out = {}}, {}, 1, {}).empty());
}

TEST_CASE("MIG instances are seen in the driver's table") {
  const TemporaryFolder folder;
  CHECK_FALSE(has_mig(folder.path()));
  const auto gpu = folder.path() / "proc/driver/nvidia/capabilities/gpu1/mig";
  std::filesystem::create_directories(gpu);
  CHECK_FALSE(has_mig(folder.path()));
  std::filesystem::create_directories(gpu / "gi3");
  CHECK(has_mig(folder.path()));
}

TEST_CASE("messages and reports show the user's numbers") {
  CHECK(shown_gpu(1) == 1);
  show_gpus_as({5, 2});
  CHECK(shown_gpu(0) == 5);
  CHECK(shown_gpu(1) == 2);
  CHECK(shown_gpu(2) == 2);
  CHECK(shown_gpu(-1) == -1);
  show_gpus_as({});
}
