// Operands that are transposed while they are read: against explicitly transposed ones, whatever reads them.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "io/memory/transposed_source.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"
#include "support/oracle.hpp"
#include "support/process.hpp"

namespace {

using namespace spmm;

ProductOptions transposing(bool a, bool b, const std::string& kernel = "auto") {
  ProductOptions options;
  options.backend = Backend::cpu;
  options.kernel = kernel;
  options.transpose_a = a;
  options.transpose_b = b;
  return options;
}

std::vector<std::byte> records_of(const Source& source, std::uint64_t piece) {
  const std::uint64_t record = input_record_bytes(source.header().m);
  const std::uint64_t count = source.header().num_blocks;
  std::vector<std::byte> records(count * record);
  for (std::uint64_t at = 0; at < count; at += piece) {
    source.read(at, std::min(piece, count - at), records.data() + at * record);
  }
  return records;
}

template <class Call>
std::string format_error_of(const Call& call) {
  try {
    call();
  } catch (const FormatError& e) {
    return e.what();
  }
  return "no FormatError";
}

}  // namespace

TEST_CASE("records of every side are transposed where they lie, however they are read") {
  for (std::uint32_t m = 1; m <= kMaxBlockDim; ++m) {
    const std::uint32_t count = m <= 8 || m == 16 ? 400 : 40;
    const BlockMatrix matrix = test::random_matrix(30 * m, m, count, 65535, m);
    const test::MemorySource plain(matrix);
    const io::TransposedSource source(plain);
    INFO("m " << m);
    CHECK(source.header() == matrix.header());
    const std::vector<std::byte> expected = records_of(test::MemorySource(test::transposed(matrix)), count);
    CHECK((records_of(source, count) == expected));
    CHECK((records_of(source, 7) == expected));
    const io::TransposedSource twice(static_cast<const Source&>(source));
    CHECK((records_of(twice, count) == records_of(plain, count)));
  }
  // More than the source reads at a time.
  const BlockMatrix large = test::random_matrix(64 * 100, 64, 90, 65535, 1);
  const test::MemorySource plain(large);
  CHECK((records_of(io::TransposedSource(plain), 90) == records_of(test::MemorySource(test::transposed(large)), 90)));
}

TEST_CASE("messages name record and block of a transposed operand as they are in the file") {
  for (const std::uint32_t m : {1u, 8u}) {
    BlockMatrix outside = test::random_matrix(500 * m, m, 3000, 9, 1);
    outside.index[17] = {.i = 3, .j = 700};
    BlockMatrix twice = test::random_matrix(500 * m, m, 3000, 9, 1);
    twice.index[21] = {.i = 3, .j = 499};
    twice.index[2500] = {.i = 3, .j = 499};
    const test::TemporaryFolder folder;
    write_matrix(folder.file("good"), test::random_matrix(500 * m, m, 3000, 9, 2));
    write_matrix(folder.file("outside"), outside);
    write_matrix(folder.file("twice"), twice);
    for (const char* kernel : {"auto", "reference"}) {
      for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{1'300'000}}) {
        if (limit != 0 && (m == 1 || std::string(kernel) == "auto")) continue;
        INFO("m " << m << ", " << kernel << ", limit " << limit);
        EngineOptions limited;
        limited.num_threads = 2;
        limited.memory_limit_bytes = limit;
        const auto message = [&](const std::string& a, const std::string& b) {
          const Options options{limited, transposing(true, true, kernel)};
          return format_error_of([&] { multiply(folder.file(a), folder.file(b), folder.file("c"), options); });
        };
        for (const auto& found : {message("outside", "good"), message("good", "outside")}) {
          CHECK(found.find("outside, record 17 (") != std::string::npos);
          CHECK(found.find("block index (3, 700)") != std::string::npos);
        }
        for (const auto& found : {message("twice", "good"), message("good", "twice")}) {
          CHECK(found.find("twice, record 2500 (") != std::string::npos);
          CHECK(found.find("block (3, 499) was stored before in record 21 ") != std::string::npos);
        }
      }
    }
  }
}

TEST_CASE("a transposed operand has an identity of its own") {
  const test::TemporaryFolder folder;
  write_matrix(folder.file("a"), test::random_matrix(40, 4, 20, 9, 1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a file just written has none
  const auto plain = open_file_source(folder.file("a"));
  const io::TransposedSource source(*plain);
  REQUIRE(plain->identity());
  CHECK(source.identity() != plain->identity());
  CHECK(source.identity()->is_same_file(*plain->identity()));
  CHECK_FALSE(source.identity()->is_other_state(*plain->identity()));
  CHECK(io::TransposedSource(static_cast<const Source&>(source)).identity() == plain->identity());
  CHECK(io::open_operand(folder.file("a"), true)->identity() == source.identity());
  CHECK(io::open_operand(folder.file("a"), false)->identity() == plain->identity());
}
