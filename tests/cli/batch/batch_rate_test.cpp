// Products a second of a batch, against a loop over the library in one process. Not run by default: it measures the
// machine. SPMM_TEST_JOBS and SPMM_TEST_ROUNDS say how much; run it with the tag [rate].
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cli/batch/batch_place.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using Clock = std::chrono::steady_clock;

std::size_t wish(const char* name, std::size_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoul(text, nullptr, 10);
}

constexpr int kOperands = 20;

std::string operand(std::size_t number) {
  return std::to_string(number % kOperands + 1) + ".bin";
}
std::string left(std::size_t job) {
  return operand(job);
}
std::string right(std::size_t job) {
  return operand(job / kOperands);
}
std::string out(std::size_t job) {
  return "c" + std::to_string(job) + ".bin";
}

void remove_outputs(std::size_t num_jobs) {
  for (std::size_t j = 0; j < num_jobs; ++j) std::filesystem::remove(out(j));
  std::filesystem::remove_all("jobs.tsv.journal");
}

template <class Work>
double rate_of(std::size_t num_jobs, const Work& work) {
  remove_outputs(num_jobs);
  const auto start = Clock::now();
  work();
  return static_cast<double>(num_jobs) / std::chrono::duration<double>(Clock::now() - start).count();
}

void loop(std::size_t num_jobs, unsigned num_threads) {
  Engine engine;
  ProductOptions options;
  options.backend = Backend::cpu;
  options.max_threads = num_threads == 1 ? 0 : 1;
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t j = next++; j < num_jobs; j = next++) engine.multiply(left(j), right(j), out(j), options);
  };
  std::vector<std::jthread> threads;
  for (unsigned t = 1; t < num_threads; ++t) threads.emplace_back(run);
  run();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

TEST_CASE("products a second of a batch and of a loop", "[.rate]") {
  const std::size_t num_jobs = wish("SPMM_TEST_JOBS", 1000);
  const std::size_t rounds = wish("SPMM_TEST_ROUNDS", 5);
  BatchPlace place(0);
  for (int o = 1; o <= kOperands; ++o) {
    write_matrix(std::to_string(o) + ".bin", random_matrix(1024, 8, 1000, 2047, static_cast<std::uint64_t>(o)));
  }
  std::string list;
  for (std::size_t j = 0; j < num_jobs; ++j) list += left(j) + "\t" + right(j) + "\t" + out(j) + "\n";
  write_bytes("jobs.tsv", list);
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<double> batch;
  std::vector<double> one;
  std::vector<double> many;
  std::printf("%zu jobs a round, products/s: batch, loop in one thread, loop in %u threads\n", num_jobs, cores);
  for (std::size_t round = 0; round < rounds; ++round) {
    batch.push_back(rate_of(num_jobs, [] { CHECK(run_batch({"jobs.tsv", "--backend", "cpu"}).exit_code == 0); }));
    one.push_back(rate_of(num_jobs, [&] { loop(num_jobs, 1); }));
    many.push_back(rate_of(num_jobs, [&] { loop(num_jobs, cores); }));
    std::printf("%8.1f %8.1f %8.1f\n", batch.back(), one.back(), many.back());
  }
  std::printf("%8.1f %8.1f %8.1f  medians; batch / loops: %.2f, %.2f\n", median(batch), median(one), median(many),
              median(batch) / median(one), median(batch) / median(many));
}
