// Products of one process in turn, each of which meets a fault or none, and is checked.
// fault_products SCENARIO STATE_FILE, with the library that fails calls preloaded. Each line of standard input is a
// fault: numbers of kind and mode, which call, the error. The answer is a line: what is wrong, or nothing.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "faults/fault_state.hpp"
#include "io/files/file_sink.hpp"
#include "spmm/spmm.hpp"
#include "support/files.hpp"
#include "support/matrices.hpp"
#include "support/oracle.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
namespace fs = std::filesystem;

constexpr unsigned kSeconds = 60;  // a product takes a few thousandths of one
constexpr const char* kOldOutput = "what an earlier run has written";

/// One call that fails.
struct FaultPoint {
  FaultKind kind{};
  FaultMode mode{};
  std::uint64_t at = 0;
  int error = 0;
};

FaultState* state = nullptr;
std::string current_point;

void set(const FaultPoint& point) {
  state->mode = FaultMode::none;
  for (auto& count : state->num_calls) count.store(0);
  state->num_failed.store(0);
  state->kind = point.kind;
  state->at = point.at;
  state->error = point.error;
  state->mode = point.mode;
}

/// Says which point hangs.
void on_alarm(int) {
  constexpr char kWords[] = "hangs: ";
  [[maybe_unused]] ssize_t put = ::write(STDERR_FILENO, kWords, sizeof kWords - 1);
  put = ::write(STDERR_FILENO, current_point.data(), current_point.size());
  ::abort();
}

/// A product of one kind, and how its result is checked.
struct Scenario {
  std::function<void()> prepare;
  std::function<void()> multiply;
  std::function<bool()> is_complete;
  std::function<bool()> is_untouched;  ///< as prepare() has left it
};

void remove_left(const std::vector<std::string>& known) {
  for (const auto& entry : fs::directory_iterator(".")) {
    if (std::find(known.begin(), known.end(), entry.path().filename().string()) == known.end()) {
      fs::remove_all(entry.path());
    }
  }
}

/// What is wrong with a product under a fault, or "".
std::string problem_of(const Scenario& scenario, const FaultPoint& point) {
  remove_left({"a.bin", "b.bin", "c.bin", "c"});  // of a bad end
  scenario.prepare();
  bool has_thrown = false;
  std::string problem;
  set(point);
  ::alarm(kSeconds);
  try {
    scenario.multiply();
  } catch (const Error& error) {
    has_thrown = true;
    if (error.what()[0] == '\0') problem = "no message";
  } catch (const std::bad_alloc&) {
    has_thrown = true;
  } catch (const std::exception& error) {
    has_thrown = true;
    problem = std::string("another exception: ") + error.what();
  }
  ::alarm(0);
  state->mode = FaultMode::none;
  const bool has_failed = state->num_failed.load() != 0;
  if (!problem.empty()) return problem;
  if (has_thrown && !has_failed) return "fails without a fault";
  if (has_thrown && (point.mode == FaultMode::shortened || point.mode == FaultMode::interrupted))
    return "does not get over it";
  if (!has_thrown && !scenario.is_complete()) return "wrong result";
  if (has_thrown && !scenario.is_untouched() && !scenario.is_complete()) return "half a result, or something left";
  return "";
}

/// Answers each line of standard input.
void run(const Scenario& scenario) {
  while (std::getline(std::cin, current_point)) {
    std::istringstream words(current_point);
    std::uint32_t kind = 0;
    std::uint32_t mode = 0;
    FaultPoint point;
    words >> kind >> mode >> point.at >> point.error;
    point.kind = static_cast<FaultKind>(kind);
    point.mode = static_cast<FaultMode>(mode);
    std::cout << problem_of(scenario, point) << std::endl;
  }
}

bool same(const ProductMatrix& x, const ProductMatrix& y) {
  return x.n == y.n && x.m == y.m && x.index == y.index && x.values == y.values;
}

/// Products of two files into a third, each on a separate engine or all on one.
Scenario files_scenario(const ProductOptions& product, const EngineOptions& engine_options, bool keeps_engine) {
  const auto a = random_matrix(256, 4, 150, 65535, 1);
  const auto b = random_matrix(256, 4, 140, 65535, 2);
  write_matrix("a.bin", a);
  write_matrix("b.bin", b);
  write_product("c.bin", oracle_multiply(a, b));
  const std::string complete = bytes_of("c.bin");
  const auto engine = std::make_shared<std::unique_ptr<Engine>>();
  return {.prepare = [] { write_bytes("c.bin", kOldOutput); },
          .multiply =
              [=] {
                if (!keeps_engine) {
                  Engine(engine_options).multiply("a.bin", "b.bin", "c.bin", product);
                  return;
                }
                if (!*engine) *engine = std::make_unique<Engine>(engine_options);
                (*engine)->multiply("a.bin", "b.bin", "c.bin", product);
              },
          .is_complete =
              [=] {
                return bytes_of("c.bin") == complete && names_in(".", {"a.bin", "b.bin", "c.bin"}).empty();
              },
          .is_untouched =
              [] {
                return bytes_of("c.bin") == kOldOutput && names_in(".", {"a.bin", "b.bin", "c.bin"}).empty();
              }};
}

Scenario memory_scenario(const ProductOptions& product, const EngineOptions& engine_options) {
  const auto a = std::make_shared<BlockMatrix>(random_matrix(256, 4, 150, 65535, 3));
  const auto b = std::make_shared<BlockMatrix>(random_matrix(256, 4, 140, 65535, 4));
  const auto expected = std::make_shared<ProductMatrix>(oracle_multiply(*a, *b));
  const auto c = std::make_shared<ProductMatrix>();
  const auto engine = std::make_shared<Engine>(engine_options);
  return {.prepare = [=] { *c = {}; },
          .multiply = [=] { *c = engine->multiply(*a, *b, product); },
          .is_complete = [=] { return same(*c, *expected); },
          .is_untouched = [=] { return c->index.empty(); }};
}

/// Writers that reserve space and write through mappings, which this machine may have too few cores for.
Scenario mapped_scenario() {
  constexpr std::uint32_t kM = 64;
  constexpr std::uint32_t kBlocks = 1200;
  const auto records = std::make_shared<std::string>();
  for (std::uint32_t x = 0; x < kBlocks; ++x) {
    const std::array<std::uint32_t, 2> index = {x / 100, x % 100};
    records->append(reinterpret_cast<const char*>(index.data()), sizeof index);
    records->append(4 * kM * kM, static_cast<char>(1 + x % 100));
  }
  const auto write = [=] {
    const auto sink = io::open_tuned_file_sink("c.bin", kM, {}, {.maps = true, .num_writers = 4});
    const std::size_t half = records->size() / kBlocks * (kBlocks / 2);
    const auto bytes = std::as_bytes(std::span(*records));
    sink->write(0, bytes.first(half), {});
    sink->write(kBlocks / 2, bytes.subspan(half), {});
    sink->finish({.n = 100 * kM, .m = kM, .num_blocks = kBlocks});
    sink->publish();
  };
  return {.prepare = [] { write_bytes("c.bin", kOldOutput); },
          .multiply = write,
          .is_complete =
              [=] {
                const std::string content = bytes_of("c.bin");
                return content.size() == 12 + records->size() &&
                       content.compare(12, std::string::npos, *records) == 0 && names_in(".", {"c.bin"}).empty();
              },
          .is_untouched = [] { return bytes_of("c.bin") == kOldOutput && names_in(".", {"c.bin"}).empty(); }};
}

Scenario scenario_of(const std::string& name) {
  ProductOptions product;
  product.backend = Backend::cpu;
  product.verify_blocks = 10;
  EngineOptions engine;
  engine.num_threads = 3;
  if (name == "files") return files_scenario(product, engine, false);
  if (name == "engine") return files_scenario(product, engine, true);
  if (name == "memory") return memory_scenario(product, engine);
  if (name == "mapped") return mapped_scenario();
  engine.memory_limit_bytes = 60'000;
  product.kernel = "reference";  // row-merge needs 2 MB for each thread
  return files_scenario(product, engine, true);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int fd = ::open(argv[2], O_RDWR | O_CLOEXEC);
  void* const data = ::mmap(nullptr, sizeof(FaultState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return 2;
  state = static_cast<FaultState*>(data);
  ::signal(SIGALRM, on_alarm);
  const WorkingFolder place;
  run(scenario_of(argv[1]));
  return 0;
}
