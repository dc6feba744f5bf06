// spmm-stress: random products against the definition, until a time or a number is reached.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <type_traits>

#include "cli/options.hpp"
#include "cli/program.hpp"
#include "cpu/simd/isa.hpp"
#include "cuda/backend.hpp"
#include "spmm/spmm.hpp"
#include "stress/chains.hpp"
#include "support/arrays.hpp"
#include "support/matrices.hpp"
#include "support/oracle.hpp"
#include "support/process.hpp"
#include "support/stress_case.hpp"
#include "support/wrapped_calls.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kNotes = R"(
Exit codes: 0 all are right, 1 some are wrong, 2 wrong command line, 77 no device for --backend cuda.
)";

struct StressOptions {
  StressChoice choice{};
  std::vector<int> devices{};
  std::uint64_t seed = 1;
  std::uint64_t count = 0;
  std::uint64_t least = 0;
  double seconds = 0;
  unsigned limit_s = 300;
  bool forges = false;
  bool verbose = false;
};

std::array<char, 500> current_case{};

std::array<struct sigaction, NSIG> usual_actions{};

/// A case that does not end, or that ends the process, in which case the usual action, perhaps a sanitizer's, follows.
void on_signal(int number) {
  const std::string_view words = number == SIGALRM ? "spmm-stress: error: hangs: " : "spmm-stress: error: crashes: ";
  [[maybe_unused]] ssize_t put = ::write(STDERR_FILENO, words.data(), words.size());
  put = ::write(STDERR_FILENO, current_case.data(), current_case.size());
  for (const int usual : {SIGABRT, number})
    ::sigaction(usual, &usual_actions[static_cast<std::size_t>(usual)], nullptr);
  if (number == SIGALRM) ::abort();
}

bool has_number(const std::string& message, std::size_t number) {
  const std::string word = " " + std::to_string(number);
  for (std::size_t at = message.find(word); at != std::string::npos; at = message.find(word, at + 1)) {
    if (std::isdigit(message.c_str()[at + word.size()]) == 0) return true;
  }
  return false;
}

void force_isa(const std::string& name) {
  name.empty() ? ::unsetenv("SPMM_CPU_ISA") : ::setenv("SPMM_CPU_ISA", name.c_str(), 1);
}

/// Runs cases in a separate folder.
class Stress {
 public:
  explicit Stress(const StressOptions& options) : options_(options) {}

  /// What is wrong with a case, or "".
  std::string problem_of(StressCase& c) {
    if (options_.forges) return problem_of_proofs(c, folder_.path(), num_forged);
    force_isa(c.isa);
    // A limit under which no division fits is refused with a message that says so: then more.
    for (int attempt = 0; attempt < 50; ++attempt) {
      try {
        std::uint64_t num_steps = 0;
        std::atomic<bool> cancel = false;
        c.options.cancel = &cancel;
        std::atomic<bool> is_called = false;
        bool is_in_turn = true;
        bool has_jumped = false;
        std::map<Stage, std::uint64_t> reached;
        c.options.on_progress = [&](Stage stage, std::uint64_t done, std::uint64_t total) {
          is_in_turn = is_in_turn && !is_called.exchange(true);
          has_jumped = has_jumped || done < reached[stage] || done > total;
          reached[stage] = done;
          cancel = ++num_steps == c.cancel_at || cancel;
          is_called = false;
        };
        if (c.way == Way::types || c.way == Way::device_types) {
          ++ways[std::string(element_name(chain_type(c.seed)))];
          return on_engine(c, [&](Engine& engine) {
            return problem_of_chains(engine, c.seed, c.options, c.way == Way::device_types);
          });
        }
        const ProductMatrix product = on_engine(c, [&](Engine& engine) { return multiply_on(engine, c); });
        if (!is_in_turn || (has_jumped && !was_out_of_core_))
          return "progress that does not grow to its total, call by call";
        if (!c.bad_records.empty()) return "accepted";
        if (product == c.expected) return "";
        return "differs: " + std::to_string(product.index.size()) + " blocks, expected " +
               std::to_string(c.expected.index.size());
      } catch (const OutOfMemory& error) {
        if (c.options.memory_limit_bytes == 0) return error.what();
        c.options.memory_limit_bytes += c.options.memory_limit_bytes / (c.is_large ? 2 : 1);
        if (c.way == Way::types || c.way == Way::device_types) c.options.memory_limit_bytes = 0;  // drawn small
        ++num_refused;
      } catch (const SaturationError& error) {
        if (c.options.on_saturation == OnSaturation::report || num_saturated(c.expected) == 0) return error.what();
        return c.way == Way::files && fs::exists(folder_.file("c")) != had_output_ ? "an output in spite of saturation"
                                                                                   : "";
      } catch (const FormatError& error) {
        for (const std::size_t record : c.bad_records) {
          if (!has_number(error.what(), record)) return error.what();
        }
        return c.bad_records.empty() ? error.what() : "";
      } catch (const Interrupted& error) {
        return c.cancel_at == 0 ? error.what() : "";
      } catch (const UsageError& error) {
        // A kernel that cannot take a product says so by its name: then the one that is picked.
        if (c.options.kernel == "auto" || std::string(error.what()).find(c.options.kernel) == std::string::npos) {
          return error.what();
        }
        c.options.kernel = "auto";
        ++num_kernels_refused;
      } catch (const std::exception& error) {
        return error.what();
      }
    }
    return "does not fit any memory limit";
  }

  std::map<std::string, std::uint64_t> ways;  ///< how many products went each way
  std::uint64_t num_refused = 0;
  std::uint64_t num_kernels_refused = 0;
  std::uint64_t num_forged = 0;

 private:
  template <class Multiply>
  std::invoke_result_t<Multiply, Engine&> on_engine(const StressCase& c, const Multiply& multiply) {
    if (!c.is_warm) {
      EngineOptions fresh = c.options;
      fresh.devices = options_.devices;
      return multiply(*std::make_unique<Engine>(fresh));
    }
    if (!engine_) engine_ = std::make_unique<Engine>(EngineOptions{.devices = options_.devices});
    return multiply(*engine_);
  }

  ProductMatrix multiply_on(Engine& engine, const StressCase& c) {
    Report report;
    ProductMatrix product;
    if (c.way == Way::memory) {
      product = engine.multiply(c.a, c.b, c.options, &report);
    } else if (c.way != Way::files) {
      product = multiply_arrays(engine, c, report);
    } else {
      const std::string a = folder_.file("a");
      const std::string b = folder_.file(c.is_square ? "a" : "b");
      const std::string out = folder_.file("c");
      write_matrix(a, c.a);
      write_matrix(b, c.b);
      if (c.seed % 2 == 0) fs::remove(out);  // else the last output is replaced
      had_output_ = fs::exists(out);
      if (c.num_ranks != 0) {
        run_ranks(c, a, b, out);
        return read_product(out);
      }
      report = engine.multiply(a, b, out, c.options);
      const auto num_names = std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator());
      if (num_names > 3) throw std::runtime_error("something is left beside the output");
      product = read_product(out);
    }
    const std::uint64_t limit = c.options.memory_limit_bytes;
    if (limit != 0 && (report.plan.host_need_bytes > limit || report.peak_device_bytes > limit)) {
      throw std::runtime_error("needs more than its limit");
    }
    const bool is_at_once = report.plan.scratch_bytes == 0;
    was_out_of_core_ = !is_at_once;
    if (is_at_once && report.peak_device_bytes > report.plan.device_need_bytes) {
      throw std::runtime_error("needs more than planned");
    }
    ++ways[std::string("in ") + kWays[static_cast<std::size_t>(c.way)]];
    if (c.way == Way::plan) return product;  // without a report
    if (report.c_blocks != product.index.size()) throw std::runtime_error("blocks of the report: wrong");
    if (report.pairs != c.num_pairs) throw std::runtime_error("pairs of the report: wrong");
    if (report.plan.devices.size() > 1 && report.plan.num_ranges <= 1) {
      std::uint64_t pairs = 0;
      std::uint64_t blocks = 0;
      for (const DeviceShare& share : report.plan.devices) {
        pairs += share.pairs;
        blocks += share.num_blocks;
      }
      if (pairs != report.pairs || blocks != report.c_blocks) throw std::runtime_error("shares of devices: wrong");
      ++ways["shared by devices"];
    }
    if (report.num_panels > 1) ++ways["several panels"];
    ++ways[is_at_once ? "at once" : report.plan.num_slabs > 1 ? "out of core, in slabs" : "out of core"];
    if (report.saturated_elements != num_saturated(c.expected)) throw std::runtime_error("saturated elements: wrong");
    if (report.dropped_elements != c.num_dropped) throw std::runtime_error("dropped elements: wrong");
    if (!c.options.selection.is_all()) ++ways["selections"];
    if (c.options.on_saturation == OnSaturation::error && report.saturated_elements > 0) {
      throw std::runtime_error("elements saturate, and the product ended well");
    }
    return product;
  }

  /// Block-CSR arrays of the case's sides, in the memory of the host or of the device.
  static ProductMatrix multiply_arrays(Engine& engine, const StressCase& c, Report& report) {
    BsrMatrix<std::uint16_t> a = as_bsr(c.a);
    BsrMatrix<std::uint16_t> b = as_bsr(c.b);
    a.rows = std::uint64_t{c.sides[0]} * a.m;
    a.cols = b.rows = std::uint64_t{c.sides[1]} * a.m;
    b.cols = std::uint64_t{c.sides[2]} * a.m;
    a.indptr.resize(std::size_t{c.sides[0]} + 1);
    b.indptr.resize(std::size_t{c.sides[1]} + 1);
    if (c.way == Way::arrays) {
      return as_blocks(engine.multiply(a.view(), b.view(), c.options, &report), c.a.n);
    }
#ifdef SPMM_STRESS_CUDA
    return multiply_on_device(engine, c, a, b, report);
#else
    throw std::runtime_error("built without CUDA");
#endif
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
                                      "cpu",
                                      "--threads",
                                      c.options.num_threads % 2 == 0 ? "2" : "1"};
    if (c.options.transpose_a) words.emplace_back("--transpose-a");
    if (c.options.transpose_b) words.emplace_back("--transpose-b");
    if (c.options.rows != RowRange{}) {
      words.insert(words.end(),
                   {"--rows", std::to_string(c.options.rows.first) + ":" + std::to_string(c.options.rows.end)});
    }
    const Selection& selection = c.options.selection;
    if (selection.upper_triangle) words.insert(words.end(), {"--triangle", "upper"});
    if (selection.no_diagonal) words.emplace_back("--no-diagonal");
    if (selection.at_least != 0) words.insert(words.end(), {"--at-least", std::to_string(selection.at_least)});
    if (selection.keep != 0) words.insert(words.end(), {"--keep", std::to_string(selection.keep)});
    if (c.options.on_saturation == OnSaturation::error) words.insert(words.end(), {"--on-saturation", "error"});
    if (c.options.memory_limit_bytes != 0) {
      words.insert(words.end(), {"--memory-limit", std::to_string(c.options.memory_limit_bytes)});
    }
    if (c.options.verify_full || c.options.verify_blocks != 0) {
      words.emplace_back("--verify");
      words.push_back(c.options.verify_full ? "full" : std::to_string(c.options.verify_blocks));
    }
    words.insert(words.end(), {a, b, out});
    const ProcessResult result = run_process(words, {.env = {{"SPMM_CPU_ISA", c.isa}}, .folder = {}});
    constexpr int kMemory = 71;
    constexpr int kSaturated = 76;
    constexpr int kBadData = 65;
    if (result.exit_code == kBadData) throw FormatError("ranks", result.err, "");
    if (result.exit_code == kMemory) throw OutOfMemory("ranks", result.err, "");
    if (c.options.on_saturation == OnSaturation::error && result.exit_code == kSaturated) {
      throw SaturationError("ranks", result.err, "");
    }
    if (result.exit_code != 0) throw std::runtime_error(result.err + ", exit code " + std::to_string(result.exit_code));
#else
    throw std::runtime_error("built without MPI: no ranks for " + c.text + ", " + a + ", " + b + ", " + out);
#endif
  }

  const StressOptions& options_;
  TemporaryFolder folder_;
  std::unique_ptr<Engine> engine_;
  bool had_output_ = false;
  bool was_out_of_core_ = false;
};

/// Whether this machine has an instruction set.
bool has_isa(const std::string& name) {
  force_isa(name);
  try {
    return cpu::isa_name(cpu::choose_isa()) == name;
  } catch (const UsageError&) {
    return false;
  }
}

/// Whether the device has what a kernel needs: some are for tensor cores of Hopper. Errors: DeviceError, of "auto".
bool runs_here(const std::string& kernel, Backend backend) {
  Options options;
  options.backend = backend;
  options.kernel = kernel;
  options.force = true;
  const BlockMatrix one = identity_matrix(8, 4);  // a side that every kernel takes
  try {
    return multiply(one, one, options).index.size() == 2;
  } catch (const DeviceError&) {
    if (kernel == "auto") throw;
    return false;
  }
}

cli::OptionTable declared_options() {
  cli::OptionTable options("spmm-stress",
                           "Multiplies random matrices in random ways and compares every byte with the definition.");
  options.add_options()("seed", "of the first case; the others have the numbers after it", cli::value("1"))(
      "count", "cases at most; 0 = until the time is over", cli::value("0"))(
      "seconds", "time at most; 0 = until the number is reached", cli::value("0"))(
      "least", "cases at least, also when the time is over", cli::value("0"))(
      "limit", "seconds of one case, against hangs", cli::value("300"))(
      "backend", "cpu, or cuda: without a device exit code 77, or 1 under SPMM_REQUIRE_GPU=1", cli::value("cpu"))(
      "all-devices", "every product on all GPUs; a single one plays two")("kernel", "this kernel alone", cli::value())(
      "isa", "this instruction set alone", cli::value())("ranks", "some products by spmm-mpi")(
      "forge", "proofs instead, of each product and of results of it that are forged in every known way")(
      "v,verbose", "print every case before it runs")("h,help", "print this help");
  return options;
}

StressOptions parse(const cli::ParsedOptions& parsed) {
  StressOptions options;
  const auto number = [&](const char* name) { return cli::parse_count(parsed.text(name), name); };
  options.seed = number("seed");
  options.count = number("count");
  options.least = number("least");
  options.seconds = static_cast<double>(number("seconds"));
  options.limit_s = static_cast<unsigned>(number("limit"));
  if (options.count == 0 && options.seconds == 0) options.count = 1000;
  options.choice.backend = parsed.text("backend") == "cuda" ? Backend::cuda : Backend::cpu;
#ifdef SPMM_STRESS_CUDA
  options.choice.has_device_ways = options.choice.backend == Backend::cuda && parsed.count("all-devices") == 0;
#endif
  options.choice.has_ranks = parsed.count("ranks") != 0;
  if (parsed.count("kernel") != 0) options.choice.kernels = {parsed.text("kernel")};
  if (parsed.count("isa") != 0) options.choice.isas = {parsed.text("isa")};
  if (parsed.count("all-devices") != 0) {
    std::string why_not;
    may_list_device_twice = cuda::num_devices(why_not) == 1;  // it plays two
    options.devices = may_list_device_twice ? std::vector<int>{0, 0} : std::vector<int>{kAllDevices};
  }
  options.forges = parsed.count("forge") != 0;
  if (options.forges) options.choice.max_work /= 20;  // of one case of many proofs
  options.verbose = parsed.count("verbose") != 0;
  return options;
}

/// Kernels and instruction sets of this machine, where none is given. False: there is no device.
bool find_what_runs(StressChoice& choice) {
  try {
    if (!runs_here("auto", choice.backend)) throw std::runtime_error("the identity squared is wrong");
  } catch (const DeviceError& error) {
    std::cerr << "spmm-stress: " << error.what() << std::endl;
    return false;
  }
  const bool are_all = choice.kernels.empty();
  for (const KernelInfo& kernel : kernel_names()) {
    if (are_all && kernel.backend == choice.backend && runs_here(kernel.name, choice.backend)) {
      choice.kernels.push_back(kernel.name);
    }
  }
  if (!choice.isas.empty() || choice.backend == Backend::cuda) return true;
  for (const char* name : {"portable", "avx2", "avx512-vnni"}) {
    if (has_isa(name)) choice.isas.emplace_back(name);
  }
  force_isa("");
  return true;
}

int run(const cli::ParsedOptions& parsed) {
  StressOptions options = parse(parsed);
  if (!find_what_runs(options.choice)) {
    const char* required = std::getenv("SPMM_REQUIRE_GPU");
    constexpr int kSkipped = 77;
    return required != nullptr && std::string(required) == "1" ? 1 : kSkipped;
  }
  for (const int number : {SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    ::sigaction(number, &action, &usual_actions[static_cast<std::size_t>(number)]);
  }
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);  // in a container
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  Stress stress(options);
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::uint64_t done = 0;
  std::uint64_t bad = 0;
  double slowest_s = 0;
  std::string slowest;
  const auto has_time = [&] { return options.seconds == 0 || done < options.least || seconds() < options.seconds; };
  while ((options.count == 0 || done < options.count) && has_time()) {
    const std::uint64_t seed = options.seed + done;
    const bool has_types = seed % 8 == 0 && !options.forges && parsed.count("kernel") == 0;
    StressCase c = has_types ? make_type_case(seed, options.choice) : make_stress_case(seed, options.choice);
    current_case.fill(0);
    (c.text + "\n").copy(current_case.data(), current_case.size() - 1);
    if (options.verbose) std::cout << c.text << std::endl;
    ::alarm(options.limit_s);
    const double began_s = seconds();
    const std::string problem = stress.problem_of(c);
    ::alarm(0);
    if (seconds() - began_s > slowest_s) {
      slowest_s = seconds() - began_s;
      slowest = c.text;
    }
    ++stress.ways[c.options.kernel];
    ++stress.ways[c.isa.empty() ? "widest" : c.isa];
    if (c.num_ranks != 0) ++stress.ways["ranks"];
    ++done;
    if (problem.empty()) continue;
    ++bad;
    std::cerr << "spmm-stress: error: " << c.text << ": " << problem << "\nrepeat it with the same options and --seed "
              << c.seed << " --count 1; if it is right then, with --seed " << options.seed << " --count " << done
              << std::endl;
  }
  std::cout << done << " products from seed " << options.seed << " on in " << seconds() << " s, " << bad << " wrong, "
            << stress.num_refused << " memory limits refused and raised, " << stress.num_kernels_refused
            << " kernels refused, " << stress.num_forged << " forged results\n";
  for (const auto& [name, number] : stress.ways) std::cout << name << " " << number << "; ";
  std::cout << "slowest: " << slowest_s << " s, " << slowest << std::endl;
  return bad == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return spmm::cli::run_program({.name = "spmm-stress", .options = declared_options, .notes = kNotes}, argc, argv, run);
}
