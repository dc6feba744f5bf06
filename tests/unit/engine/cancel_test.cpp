// Products that are cancelled at random moments, in every stage of all kinds of products on the CPU: they end soon.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"

namespace {

using namespace spmm;
using Clock = std::chrono::steady_clock;
using Random = std::mt19937_64;

constexpr double kSoon = 2;     // seconds; measured: at most 0.19 in products of 0.5 to 35 s, on two busy cores
constexpr double kAtEnd = 0.5;  // a product that is as near to its end may finish

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Where the block number x of a matrix is.
using Place = std::function<BlockIndex(std::uint32_t nb, std::uint32_t x, Random& random)>;

struct Kind {
  const char* name;
  std::uint32_t m, nb, num_blocks;
  std::uint32_t high;  // of the elements; 65535: some of the result are at the limit
  Place a, b;
};

std::uint32_t below(std::uint32_t bound, Random& random) {
  return static_cast<std::uint32_t>(random() % bound);
}

BlockIndex anywhere(std::uint32_t nb, std::uint32_t, Random& random) {
  return {below(nb, random), below(nb, random)};
}
BlockIndex in_band(std::uint32_t nb, std::uint32_t, Random& random) {
  const std::uint32_t i = below(nb, random);
  return {i, std::min(i / 8 * 8 + below(40, random), nb - 1)};
}
/// A quarter of each quarter again and again.
BlockIndex in_powers(std::uint32_t nb, std::uint32_t, Random& random) {
  const auto skewed = [&] { return nb >> below(12, random); };
  return {below(skewed(), random), below(skewed(), random)};
}
BlockIndex in_order(std::uint32_t nb, std::uint32_t x, Random&) {
  return {x / nb, x % nb};
}
BlockIndex in_column(std::uint32_t, std::uint32_t x, Random&) {
  return {x, 0};
}
BlockIndex in_row(std::uint32_t, std::uint32_t x, Random&) {
  return {0, x};
}
BlockIndex in_corner(std::uint32_t nb, std::uint32_t, Random& random) {
  return {nb - 1 - below(1000, random), nb - 1 - below(1000, random)};
}

const std::vector<Kind> kKinds = {
    {"uniform, m = 1", 1, 20'000, 200'000, 200, anywhere, anywhere},
    {"uniform, m = 4", 4, 4'000, 60'000, 200, anywhere, anywhere},
    {"uniform, m = 16", 16, 500, 8'000, 200, anywhere, anywhere},
    {"band, m = 8", 8, 5'000, 100'000, 200, in_band, in_band},
    {"powers, m = 2", 2, 1 << 13, 20'000, 200, in_powers, in_powers},
    {"full, m = 5", 5, 120, 14'400, 65535, in_order, in_order},
    {"column times row, m = 2", 2, 1'000, 1'000, 200, in_column, in_row},
    {"corner, m = 1", 1, 0xFFFF'FFFF, 20'000, 200, in_corner, in_corner},
};

void write_operand(const std::string& path, const Kind& kind, const Place& place, Random& random) {
  BlockMatrix matrix{.n = kind.nb * kind.m, .m = kind.m, .index = {}, .values = {}};
  for (std::uint32_t x = 0; x < kind.num_blocks; ++x) matrix.index.push_back(place(kind.nb, x, random));
  std::sort(matrix.index.begin(), matrix.index.end());
  matrix.index.erase(std::unique(matrix.index.begin(), matrix.index.end()), matrix.index.end());
  std::shuffle(matrix.index.begin(), matrix.index.end(), random);
  for (std::size_t e = 0; e < matrix.index.size() * kind.m * kind.m; ++e) {
    matrix.values.push_back(static_cast<std::uint16_t>(below(kind.high, random)));
  }
  write_matrix(path, matrix);
}

/// How a product runs, apart from its memory limit.
Options random_options(Random& random) {
  Options options;
  options.backend = Backend::cpu;
  options.num_threads = 1 + below(3, random);
  options.transpose_a = below(4, random) == 0;
  options.verify_full = below(3, random) == 0;
  if (below(3, random) == 0) options.verify_blocks = 1 + below(1000, random);
  if (options.verify_full) options.verify_blocks = 0;
  return options;
}

}  // namespace

TEST_CASE("a product that is cancelled ends soon, whatever it does just then") {
  constexpr int kMoments = 4;
  constexpr std::uint64_t kLeastLimit = 200'000;
  const auto kind = GENERATE(from_range(kKinds));
  const test::TemporaryFolder folder;
  const std::string a = folder.file("a.bin");
  const std::string b = folder.file("b.bin");
  const std::string c = folder.file("c.bin");
  Random random(kind.num_blocks);
  write_operand(a, kind, kind.a, random);
  write_operand(b, kind, kind.b, random);
  const auto operand_bytes = static_cast<double>(std::filesystem::file_size(a) + std::filesystem::file_size(b));
  for (const double share : {0.0, 1.2, 0.5, 0.12}) {
    Options options = random_options(random);
    options.memory_limit_bytes =
        share == 0 ? 0 : std::max(kLeastLimit, static_cast<std::uint64_t>(share * operand_bytes));
    const auto start = Clock::now();
    try {
      multiply(a, b, c, options);
    } catch (const OutOfMemory&) {
      options.verify_full = false;  // which needs more
      multiply(a, b, c, options);
    }
    const double whole_s = seconds_since(start);
    for (int moment = 0; moment < kMoments; ++moment) {
      std::filesystem::remove(c);
      const double cancel_s = whole_s * static_cast<double>(below(1000, random)) / 1000;
      std::atomic<bool> cancel{false};
      options.cancel = &cancel;
      double cancelled_s = 0;
      const auto begin = Clock::now();
      const std::jthread canceller([&] {
        std::this_thread::sleep_for(std::chrono::duration<double>(cancel_s));
        cancelled_s = seconds_since(begin);
        cancel = true;
      });
      std::string end = "finished";
      try {
        multiply(a, b, c, options);
      } catch (const Interrupted&) {
        end = "interrupted";
      }
      const double ended_s = seconds_since(begin);
      if (!cancel) continue;
      INFO(kind.name << ", limit " << options.memory_limit_bytes << ", verify " << options.verify_full << " "
                     << options.verify_blocks << ", " << options.num_threads << " threads, " << whole_s
                     << " s; cancelled after " << cancelled_s << " s, " << end << " after " << ended_s);
      CHECK(ended_s - cancelled_s < kSoon);
      if (end == "finished") CHECK(ended_s - cancelled_s < kAtEnd);
      CHECK(std::filesystem::exists(c) == (end == "finished"));
    }
  }
}
