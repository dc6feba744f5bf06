// What the CPU backend really holds in memory, measured in processes of its own: at most the limit and 32 MB.
// A program of its own: the system counts the largest resident set of the tests towards that of their children.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/process.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm::test;
using Words = std::vector<std::string>;

constexpr std::uint64_t kSlackBytes = 32u << 20;  // the program, its stacks, its libraries and its heap
constexpr std::uint64_t kMB = 1'000'000;

ProcessResult run(const std::string& program, const Words& arguments) {
  Words words = {std::string(SPMM_BIN_DIR) + "/" + program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_process(words, {.env = {}, .folder = {}, .timeout = std::chrono::seconds(300)});
}

/// Runs a product within limits and checks that it is the same as without one.
class Product {
 public:
  Product(const Words& a, const Words& b) {
    generate(a, "1", folder_.file("a.bin"));
    generate(b, "2", folder_.file("b.bin"));
    REQUIRE(multiply({}, "whole.bin").exit_code == 0);
  }

  void check_limit(std::uint64_t limit_mb, const Words& options = {}, std::uint64_t slack = kSlackBytes) const {
    Words words = {"--memory-limit", std::to_string(limit_mb) + "M"};
    words.insert(words.end(), options.begin(), options.end());
    const ProcessResult result = multiply(words, "limited.bin");
    std::string text;
    for (const std::string& word : words) text += " " + word;
    INFO(text << "\n" << result.err << "\nresident: " << result.peak_resident_bytes);
    REQUIRE(result.exit_code == 0);
    CHECK(result.peak_resident_bytes <= limit_mb * kMB + slack);
    CHECK(run("spmm-compare", {"-q", folder_.file("whole.bin"), folder_.file("limited.bin")}).exit_code == 0);
    std::filesystem::remove(folder_.file("limited.bin"));
  }

  /// spmm-verify on the product. Returns whether rows with saturated elements were computed again.
  [[nodiscard]] bool check_proof(std::uint64_t limit_mb, std::uint64_t slack) const {
    const ProcessResult result =
        run("spmm-verify", {"--memory-limit", std::to_string(limit_mb) + "M", folder_.file("a.bin"),
                            folder_.file("b.bin"), folder_.file("whole.bin")});
    INFO("spmm-verify " << limit_mb << "M\n"
                        << result.out << result.err << "\nresident: " << result.peak_resident_bytes);
    REQUIRE(result.exit_code == 0);
    CHECK(result.peak_resident_bytes <= limit_mb * kMB + slack);
    return result.out.find("block rows computed again") != std::string::npos;
  }

 private:
  static void generate(const Words& shape, const std::string& seed, const std::string& path) {
    Words words = {"-q", "--seed", seed, path};
    words.insert(words.end(), shape.begin(), shape.end());
    REQUIRE(run("spmm-gen", words).exit_code == 0);
  }

  [[nodiscard]] ProcessResult multiply(const Words& options, const std::string& out) const {
    Words words = {"--backend", "cpu", "-q", folder_.file("a.bin"), folder_.file("b.bin"), folder_.file(out)};
    words.insert(words.end(), options.begin(), options.end());
    return run("spmm", words);
  }

  TemporaryFolder folder_;
};

}  // namespace

// The sanitizers need several times the memory of the program.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

TEST_CASE("resident memory: a long row whose result is merged from slabs") {
  const Product product({"--n", "2097152", "--m", "8", "--k", "240000", "--pattern", "heavy-row"},
                        {"--n", "2097152", "--m", "8", "--k", "480000"});
  product.check_limit(100);
}

TEST_CASE("resident memory: large results, many threads, verification") {
  const Product product({"--n", "65536", "--m", "16", "--k", "14000", "--pattern", "power-law"},
                        {"--n", "65536", "--m", "16", "--k", "20000", "--max-value", "65535"});
  product.check_limit(16, {"--threads", "8"});
  product.check_limit(40, {"--verify", "1000000"});
  product.check_limit(100, {"--threads", "8"});
}

TEST_CASE("resident memory: proofs of results with saturated elements") {
  constexpr std::uint64_t kProofSlack = 18 * kMB;
  struct Shape {
    std::string n, m, k;
  };
  const Words patterns = {"uniform", "banded", "heavy-row", "heavy-column", "block-diagonal"};
  int num_recomputed = 0;
  std::size_t number = 0;
  for (const Shape& shape :
       {Shape{"200000", "1", "400000"}, Shape{"100000", "2", "300000"}, Shape{"32768", "4", "60000"},
        Shape{"65536", "8", "20000"}, Shape{"65520", "21", "3000"}}) {
    ++number;
    for (const std::string& pattern : {patterns[number % 5], patterns[(number + 2) % 5]}) {
      const Words words = {"--n",   shape.n,       "--m",   shape.m,     "--k",
                           shape.k, "--max-value", "60000", "--pattern", pattern};
      INFO("n " << shape.n << ", m " << shape.m << ", " << pattern);
      const Product product(words, words);
      product.check_limit(22, {"--verify", "full"}, kProofSlack);
      num_recomputed += product.check_proof(8, kProofSlack) ? 1 : 0;
    }
  }
  CHECK(num_recomputed >= 8);
}

TEST_CASE("resident memory: many small blocks, every kernel") {
  const Product product({"--n", "1000000", "--m", "1", "--k", "300000"},
                        {"--n", "1000000", "--m", "1", "--k", "300000"});
  product.check_limit(20, {"--kernel", "row-merge", "--threads", "1"});
  product.check_limit(60, {"--kernel", "row-merge", "--threads", "4"});
  product.check_limit(16, {"--kernel", "reference"});
}

TEST_CASE("resident memory: a small limit and a hypersparse matrix") {
  const Product product({"--n", "4194304", "--m", "4", "--k", "100000", "--pattern", "heavy-column"},
                        {"--n", "4194304", "--m", "4", "--k", "100000", "--pattern", "banded"});
  product.check_limit(20);
  product.check_limit(40, {"--threads", "3"});
}

#endif
