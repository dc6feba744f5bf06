// spmm-stress: random products against the definition, until a time or a number is reached.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "cli/options/help.hpp"
#include "cli/options/table.hpp"
#include "cli/program.hpp"
#include "spmm/spmm.hpp"
#include "stress/stress_case.hpp"
#include "support/oracle.hpp"
#include "support/process.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct StressOptions {
  StressLimits limits{};
  std::uint64_t seed = 1;
  std::uint64_t count = 0;
  double seconds = 0;
  unsigned limit_s = 300;  ///< of one product, against hangs
  bool verbose = false;
};

std::array<char, 400> current_case{};

/// A product that does not end.
void on_alarm(int) {
  constexpr char kWords[] = "spmm-stress: error: hangs: ";
  [[maybe_unused]] ssize_t put = ::write(STDERR_FILENO, kWords, sizeof kWords - 1);
  put = ::write(STDERR_FILENO, current_case.data(), current_case.size());
  ::abort();
}

/// Runs cases in a separate folder.
class Stress {
 public:
  /// What is wrong with the product of a case, or "".
  std::string problem_of(StressCase& c) {
    const ProductMatrix expected = oracle_multiply(c.a, c.b);
    // A limit under which no division fits is refused with a message that says so: then twice as much.
    for (int attempt = 0; attempt < 40; ++attempt) {
      try {
        const ProductMatrix product = multiply(c);
        if (product == expected) return "";
        return "differs: " + std::to_string(product.index.size()) + " blocks, expected " +
               std::to_string(expected.index.size());
      } catch (const OutOfMemory& error) {
        if (c.options.memory_limit_bytes == 0) return error.what();
        c.options.memory_limit_bytes *= 2;
        ++num_refused_;
      } catch (const UsageError& error) {
        // A kernel that cannot take a product says so by its name: then the one that is picked.
        if (c.options.kernel == "auto" || std::string(error.what()).find(c.options.kernel) == std::string::npos) {
          return error.what();
        }
        c.options.kernel = "auto";
        ++num_kernels_refused_;
      } catch (const std::exception& error) {
        return error.what();
      }
    }
    return "does not fit any memory limit";
  }

  [[nodiscard]] std::uint64_t num_refused() const { return num_refused_; }
  [[nodiscard]] std::uint64_t num_kernels_refused() const { return num_kernels_refused_; }

 private:
  ProductMatrix multiply(const StressCase& c) {
    if (!c.keeps_engine) return multiply_on(*std::make_unique<Engine>(c.options), c);
    if (!engine_) engine_ = std::make_unique<Engine>(EngineOptions{});
    return multiply_on(*engine_, c);
  }

  ProductMatrix multiply_on(Engine& engine, const StressCase& c) {
    if (c.way == StressWay::memory) return engine.multiply(c.a, c.b, c.options);
    const std::string a = folder_.file("a.bin");
    const std::string b = folder_.file("b.bin");
    const std::string out = folder_.file("c");
    write_matrix(a, c.a);
    write_matrix(b, c.b);
    if (c.seed % 2 == 0) fs::remove_all(out);  // else the last output is replaced, if it is of the same kind
    if (fs::exists(out) && fs::is_directory(out) != (c.way == StressWay::parts)) fs::remove_all(out);
    if (c.way == StressWay::ranks) {
      run_ranks(c, a, b, out);
    } else {
      engine.multiply(a, b, out, c.options);
    }
    const auto num_names = std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator());
    if (num_names != 3) throw std::runtime_error("something is left beside the output");
    return read_product(out);
  }

  static void run_ranks(const StressCase& c, const std::string& a, const std::string& b, const std::string& out) {
#ifdef SPMM_MPIRUN
    std::vector<std::string> words = {SPMM_MPIRUN,
                                      "--oversubscribe",
                                      "--bind-to",
                                      "none",
                                      "-n",
                                      std::to_string(c.num_ranks),
                                      SPMM_BIN_DIR "/spmm-mpi",
                                      "-q",
                                      "--backend",
                                      "cpu"};
    if (c.options.memory_limit_bytes != 0) {
      words.insert(words.end(), {"--memory-limit", std::to_string(c.options.memory_limit_bytes)});
    }
    words.insert(words.end(), {"--threads", "1", a, b, out});
    const ProcessResult result = run_process(words);
    constexpr int kMemory = 71;
    if (result.exit_code == kMemory) throw OutOfMemory("ranks", result.err, "");
    if (result.exit_code != 0) throw std::runtime_error(result.err + ", exit code " + std::to_string(result.exit_code));
#else
    static_cast<void>(c);
    throw std::runtime_error("built without MPI: no ranks for " + a + ", " + b + ", " + out);
#endif
  }

  TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
  std::uint64_t num_refused_ = 0;
  std::uint64_t num_kernels_refused_ = 0;
};

cli::OptionTable declared_options() {
  cli::OptionTable options("spmm-stress", "Multiplies random matrices and compares with the definition.");
  options.add_options()("seed", "of the first product; the others have the numbers after it", cli::value("1"))(
      "count", "products at most; 0 = until the time is over", cli::value("0"))(
      "seconds", "time at most; 0 = until the number is reached", cli::value("0"))(
      "limit", "seconds of one product, against hangs", cli::value("300"))("backend", "cpu or cuda", cli::value("cpu"))(
      "kernel", "this kernel alone", cli::value())("ranks", "some products by spmm-mpi")(
      "v,verbose", "print every case before it runs")("h,help", "print this help");
  return options;
}

StressOptions parse(const cli::ParsedOptions& parsed) {
  StressOptions options;
  const auto number = [&](const char* name) { return cli::parse_count(parsed.text(name), name); };
  options.seed = number("seed");
  options.count = number("count");
  options.seconds = static_cast<double>(number("seconds"));
  options.limit_s = static_cast<unsigned>(number("limit"));
  if (options.count == 0 && options.seconds == 0) options.count = 1000;
  const bool on_cuda = parsed.text("backend") == "cuda";
  options.limits.backend = on_cuda ? Backend::cuda : Backend::cpu;
  options.limits.has_ranks = parsed.count("ranks") != 0;
  if (parsed.count("kernel") != 0) options.limits.kernel = parsed.text("kernel");
  options.verbose = parsed.count("verbose") != 0 || on_cuda;  // a device that hangs says nothing afterwards
  return options;
}

int run(int argc, char** argv) {
  cli::OptionTable declared = declared_options();
  const auto parsed = cli::parse_strictly(declared, argc, argv);
  if (parsed.count("help") != 0) {
    std::cout << cli::help_page(declared.page(), "", cli::help_width());
    return 0;
  }
  const StressOptions options = parse(parsed);
  ::signal(SIGALRM, on_alarm);
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);  // in a container
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  Stress stress;
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::uint64_t done = 0;
  std::uint64_t bad = 0;
  while ((options.count == 0 || done < options.count) && (options.seconds == 0 || seconds() < options.seconds)) {
    StressCase c = make_stress_case(options.seed + done, options.limits);
    current_case.fill(0);
    (c.text + "\n").copy(current_case.data(), current_case.size());
    if (options.verbose) std::cout << c.text << std::endl;
    ::alarm(options.limit_s);
    const std::string problem = stress.problem_of(c);
    ::alarm(0);
    ++done;
    if (problem.empty()) continue;
    ++bad;
    std::cerr << "spmm-stress: error: " << c.text << ": " << problem << "\nrepeat it with --seed " << c.seed
              << " --count 1" << std::endl;
  }
  std::cout << done << " products from seed " << options.seed << " on in " << seconds() << " s, " << bad << " wrong, "
            << stress.num_refused() << " memory limits refused and doubled, " << stress.num_kernels_refused()
            << " kernels refused" << std::endl;
  return bad == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return cli::run_program("spmm-stress", [&] { return run(argc, argv); });
}
