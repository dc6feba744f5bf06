// What all programs share: numbers, options, exit codes.
#include "cli/program.hpp"

#include <iostream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cli/options.hpp"
#include "report/text.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace {

using namespace spmm;
using test::Variable;

/// Takes over standard error while it lives.
class CapturedErrors {
 public:
  CapturedErrors() : before_(std::cerr.rdbuf(text_.rdbuf())) {}
  ~CapturedErrors() { std::cerr.rdbuf(before_); }
  CapturedErrors(const CapturedErrors&) = delete;
  CapturedErrors& operator=(const CapturedErrors&) = delete;
  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

struct Failed {
  int code;
  std::string message;
};

template <class Exception>
Failed fail_with(const Exception& exception) {
  const CapturedErrors errors;
  const int code = cli::run_program("prog", [&]() -> int { throw exception; });
  return {code, errors.text()};
}

template <class Exception>
int code_of() {
  return fail_with(Exception("place", "problem", "hint")).code;
}

cli::OptionTable some_options() {
  using cli::value;
  cli::OptionTable options("prog", "");
  options.add_options()("file", "", value())("n", "", value())("memory-limit", "", value())(
      "order", "", value("shuffled"))("q,quiet", "");
  options.parse_positional({"file"});
  options.usage("FILE");
  return options;
}

cli::ParsedOptions parse(std::vector<const char*> words) {
  words.insert(words.begin(), "prog");
  auto options = some_options();
  return options.parse(static_cast<int>(words.size()), words.data());
}

}  // namespace

TEST_CASE("bytes: decimal and binary units, fractions and powers", "[program]") {
  const std::vector<std::pair<const char*, std::uint64_t>> good = {{"0", 0},
                                                                   {"12B", 12},
                                                                   {"8g", 8'000'000'000},
                                                                   {"8GB", 8'000'000'000},
                                                                   {"512M", 512'000'000},
                                                                   {"2GiB", std::uint64_t{2} << 30},
                                                                   {"2Gi", std::uint64_t{2} << 30},
                                                                   {"1Ki", 1024},
                                                                   {"1TiB", std::uint64_t{1} << 40},
                                                                   {"1e9", 1'000'000'000},
                                                                   {"1.5G", 1'500'000'000},
                                                                   {"0.5KiB", 512},
                                                                   {"1_000_000", 1'000'000},
                                                                   {"18446744073709551615", UINT64_MAX}};
  for (const auto& [text, bytes] : good) {
    INFO(text);
    CHECK(cli::parse_bytes(text) == bytes);
  }
  for (const char* bad : {"",          " 1",  "1 ",    "-1",  "+1",   "G",    "1X",
                          "1GG",       "1iB", "1Gib2", "1.5", "0.3B", "1e",   "1e30",
                          "1__0",      "1_",  "_1",    ".5",  "1.",   "0x10", "18446744073709551616",
                          "20000000T", "nan", "8G 1"}) {
    INFO(bad);
    CHECK_THROWS_WITH(cli::parse_bytes(bad, "--x"), Catch::StartsWith(text("--x: \"", bad, "\"")));
  }
}

TEST_CASE("counts: whole numbers inside their range", "[program]") {
  CHECK(cli::parse_count("33000000") == 33'000'000);
  CHECK(cli::parse_count("33e6") == 33'000'000);
  CHECK(cli::parse_count("1.5e3") == 1500);
  CHECK(cli::parse_count("1_000_000") == 1'000'000);
  CHECK(cli::parse_count("7", "--x", 7, 7) == 7);
  for (const char* bad : {"", "k", "1k", "1.5", "-3", "1e-2", "1e20", "3 "}) {
    INFO(bad);
    CHECK_THROWS_WITH(cli::parse_count(bad, "--x"), Catch::StartsWith("--x: "));
  }
  CHECK_THROWS_WITH(cli::parse_count("9", "--m", 1, 8), Catch::Contains("from 1 to 8"));
}

TEST_CASE("every kind of failure has its exit code", "[program]") {
  CHECK(code_of<UsageError>() == 2);
  CHECK(code_of<FormatError>() == 65);
  CHECK(code_of<ShapeError>() == 65);
  CHECK(code_of<InputError>() == 66);
  CHECK(code_of<DeviceError>() == 69);
  CHECK(code_of<OutOfMemory>() == 71);
  CHECK(code_of<OutputError>() == 73);
  CHECK(code_of<IoError>() == 74);
  CHECK(code_of<Interrupted>() == 75);
  CHECK(code_of<SaturationError>() == 76);
  CHECK(code_of<VerifyError>() == 1);
  CHECK(fail_with(std::bad_alloc()).code == 71);
  CHECK(fail_with(std::logic_error("bug")).code == 70);
  CHECK(fail_with(5).code == 70);
  CHECK(cli::run_program("prog", [] { return 1; }) == 1);
}

TEST_CASE("a failure is one line on standard error", "[program]") {
  CHECK(fail_with(IoError("a.bin", "broke", "mend it")).message == "prog: error: a.bin: broke; mend it\n");
  CHECK(fail_with(std::runtime_error("x\ny\x1b[1m")).message == "prog: error: x\\x0ay\\x1b[1m\n");
}

TEST_CASE("the parser refuses what cxxopts lets pass", "[program]") {
  const auto parsed = parse({"in.bin", "--n", "5", "-q"});
  CHECK(parsed.text("file") == "in.bin");
  CHECK(parsed.text("n") == "5");
  CHECK(parse({"--n=6"}).text("n") == "6");
  CHECK(parse({"-n", "7"}).text("n") == "7");
  for (const char* value : {"1.5e3", "/a/b.bin", "-5", "=5"}) {
    CHECK(parse({text("-n", value).c_str()}).text("n") == value);
    CHECK(parse({text("-qn", value).c_str(), "-"}).text("n") == value);
    CHECK(parse({"-n", value, "in.bin"}).text("n") == value);
    CHECK(parse({"--order", text("-n", value).c_str()}).text("order") == text("-n", value));
    CHECK(parse({"--", text("-n", value).c_str()}).text("file") == text("-n", value));
  }
  CHECK(parse({"--", "--n"}).text("file") == "--n");
  CHECK(parse({"a,b"}).text("file") == "a,b");
  CHECK_THROWS_WITH(parse({"a", "b"}), Catch::Contains("\"b\""));
  CHECK_THROWS_WITH(parse({"--n", "1", "--n", "1"}), Catch::StartsWith("--n: "));
  CHECK_THROWS_AS(parse({"-q", "--quiet"}), UsageError);
  CHECK_THROWS_AS(parse({"--n="}), UsageError);
  CHECK_THROWS_WITH(parse({"--nothing"}), Catch::Contains("see prog --help"));
  for (const char* near : {"--ordre", "--or.der", "-order"}) {
    CHECK_THROWS_WITH(parse({near, "x"}), Catch::StartsWith(text(near, ": is not an option, did you mean --order?")));
  }
  CHECK_THROWS_WITH(parse({"-qx"}), Catch::StartsWith("-x: "));
  CHECK_THROWS_WITH(parse({"--n"}), Catch::StartsWith("command line: ") && Catch::EndsWith("; see prog --help"));
  CHECK_THROWS_AS(parse({"--n"}), UsageError);
}

TEST_CASE("options: typed before environment before default", "[program]") {
  CHECK_FALSE(cli::option_bytes(parse({}), "memory-limit").has_value());
  CHECK(cli::option_text(parse({}), "order")->value == "shuffled");
  const Variable limit("SPMM_MEMORY_LIMIT", "2Gi");
  const Variable order("SPMM_ORDER", "sorted");
  CHECK(*cli::option_bytes(parse({}), "memory-limit") == std::uint64_t{2} << 30);
  CHECK(*cli::option_bytes(parse({"--memory-limit", "5"}), "memory-limit") == 5);
  CHECK(cli::option_choice(parse({}), "order", {"shuffled", "sorted"}) == 0);  // no variable of --order is read
  CHECK(cli::option_choice(parse({"--order", "sorted"}), "order", {"shuffled", "sorted"}) == 1);
  CHECK_THROWS_WITH(cli::option_choice(parse({"--order", "sorted"}), "order", {"a", "b", "c"}),
                    Catch::StartsWith("--order: \"sorted\""));
  const Variable bad("SPMM_MEMORY_LIMIT", "many");
  CHECK_THROWS_WITH(cli::option_bytes(parse({}), "memory-limit"),
                    Catch::StartsWith("SPMM_MEMORY_LIMIT (environment): \"many\""));
  const Variable quiet("SPMM_QUIET", "1");
  CHECK_FALSE(cli::option_flag(parse({}), "quiet"));
  CHECK(cli::option_flag(parse({"-q"}), "quiet"));
}

TEST_CASE("a positional that is missing or empty", "[program]") {
  CHECK_THROWS_AS(cli::required_positional(parse({}), "file", "matrix file"), UsageError);
  CHECK_THROWS_AS(cli::required_positional(parse({""}), "file", "matrix file"), UsageError);
  CHECK(cli::required_positional(parse({"x"}), "file", "matrix file") == "x");
  CHECK_THROWS_WITH(cli::required_positional(parse({"-"}), "file", "matrix file"), Catch::Contains("./-"));
  CHECK_THROWS_WITH(cli::required_positional(parse({"-"}), "file", "output", cli::Dash::refused_output),
                    Catch::Contains("standard output"));
  CHECK(cli::required_positional(parse({"-"}), "file", "list", cli::Dash::allowed) == "-");
}

TEST_CASE("numbers of elements at the limit have commas") {
  CHECK(cli::saturation_text(18446744073709551615u) == "18,446,744,073,709,551,615 elements at the limit 4294967295");
}

TEST_CASE("messages: bytes that a terminal acts on are shown as numbers", "[program]") {
  CHECK(printable("a\x1f b\x7f~\xc3\xa9\n") == "a\\x1f b\\x7f~\xc3\xa9\\x0a");
  CHECK(printable("\xc2\x9b"
                  "31m \x9b"
                  "31m \xc2\xa0.") == "\\xc2\\x9b31m \\x9b31m \xc2\xa0.");
  CHECK(printable("\xc2") == "\\xc2");                                                 // cut off
  CHECK(printable("\xe0\x80\x9b \xed\xa0\x80") == "\\xe0\\x80\\x9b \\xed\\xa0\\x80");  // too long a form, a surrogate
  CHECK(printable("\xf0\x9f\x90\x8d") == "\xf0\x9f\x90\x8d");
}

TEST_CASE("the nearest word is near, or the only one with that beginning", "[program]") {
  const std::vector<std::string> known = {"memory-limit", "kernel", "threads", "plan", "parts", "progress"};
  CHECK(cli::nearest_word("memory_limit", known) == "memory-limit");
  CHECK(cli::nearest_word("mem", known) == "memory-limit");
  CHECK(cli::nearest_word("kernle", known) == "kernel");
  CHECK(cli::nearest_word("part", known) == "parts");
  CHECK(cli::nearest_word("p", known).empty());
  CHECK(cli::nearest_word("quite", known).empty());
  CHECK(cli::nearest_word("x", {}).empty());
  CHECK(cli::nearest_word("j", known) == "threads");
  CHECK(cli::nearest_word("gpu", {"auto", "cuda", "cpu"}) == "cuda");
  CHECK(cli::nearest_word("gpu", {"auto", "cpu"}) == "cpu");
  CHECK(cli::suggestion("thread", known, "--") == ", did you mean --threads?");
  CHECK(cli::suggestion("bogus", known, "--").empty());
}
