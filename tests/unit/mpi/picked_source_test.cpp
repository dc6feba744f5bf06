// Records picked out of a file.
#include "mpi/exchange/picked_source.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>

#include "base/records/head.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"

namespace {

using namespace spmm::mpi;

/// `count` records of m = 1 whose row is their number; counts what is read of it.
class NumberedSource : public spmm::Source {
 public:
  explicit NumberedSource(std::uint32_t count) { header_ = {.n = 4'000'000'000u, .m = 1, .num_blocks = count}; }

  [[nodiscard]] const spmm::MatrixHeader& header() const override { return header_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    REQUIRE(first + count <= header_.num_blocks);
    ++num_reads;
    num_records += count;
    for (std::uint64_t r = first; r < first + count; ++r, dst += spmm::input_record_bytes(1)) {
      spmm::write_index(dst, {.i = static_cast<std::uint32_t>(r), .j = 7});
      const auto value = static_cast<std::uint16_t>(r * 3);
      std::memcpy(dst + spmm::kIndexBytes, &value, sizeof value);
    }
  }
  void check_unchanged() const override { ++num_checks; }

  mutable std::uint64_t num_reads = 0;
  mutable std::uint64_t num_records = 0;
  mutable int num_checks = 0;

 private:
  spmm::MatrixHeader header_;
  std::string name_ = "numbered.bin";
};

void add(RecordStore& store, std::uint32_t number) {
  std::array<std::byte, kSentHeadBytes> head{};
  std::memcpy(head.data(), &number, sizeof number);
  store.add(head);
}

/// All records of the source, and the numbers that they should have.
void check_records(const PickedSource& source, const std::vector<std::uint32_t>& numbers, std::uint64_t piece) {
  const std::uint64_t record = spmm::input_record_bytes(1);
  std::vector<std::byte> bytes(numbers.size() * record);
  REQUIRE(source.header().num_blocks == numbers.size());
  for (std::uint64_t at = 0; at < numbers.size(); at += piece) {
    source.read(at, std::min<std::uint64_t>(piece, numbers.size() - at), bytes.data() + at * record);
  }
  bool same = true;
  for (std::uint64_t r = 0; r < numbers.size(); ++r) {
    std::uint16_t value = 0;
    std::memcpy(&value, bytes.data() + r * record + spmm::kIndexBytes, sizeof value);
    same = same && spmm::read_index(bytes.data() + r * record).i == numbers[r] &&
           value == static_cast<std::uint16_t>(numbers[r] * 3) && source.original_record(r) == numbers[r];
  }
  CHECK(same);
}

}  // namespace

TEST_CASE("picked records come in the order of the file, whatever order they were asked for in") {
  std::mt19937 random(4);
  for (const std::uint32_t count : {1u, 63u, 64u, 65u, 1000u, 300'000u}) {
    for (const std::uint32_t one_in : {1u, 2u, 50u, 2000u}) {
      const NumberedSource whole(count);
      StoreLimit limit(1u << 30);
      RecordStore store(kSentHeadBytes, limit);
      std::vector<std::uint32_t> numbers;
      for (std::uint32_t r = 0; r < count; ++r) {
        if (random() % one_in == 0 || r + 1 == count) numbers.push_back(r);
      }
      std::vector<std::uint32_t> asked = numbers;
      std::shuffle(asked.begin(), asked.end(), random);
      for (const std::uint32_t number : asked) add(store, number);
      const std::uint64_t before = limit.used();
      {
        const PickedSource source(whole, store, limit);
        CHECK(limit.used() == before + numbers.size() * 4);
        for (const std::uint64_t piece : {std::uint64_t{1000}, std::uint64_t{70'000}}) {
          check_records(source, numbers, piece);
        }
        source.check_unchanged();
        CHECK(whole.num_checks == 1);
      }
      CHECK(limit.used() == before);
    }
  }
}

TEST_CASE("neighbours are read by one call, records that are far apart each by its own") {
  StoreLimit limit(1u << 30);
  const auto read = [&](std::uint32_t step) {
    const NumberedSource whole(1'000'000);
    RecordStore store(kSentHeadBytes, limit);
    for (std::uint32_t r = 0; r < 50; ++r) add(store, r * step);
    const PickedSource source(whole, store, limit);
    std::vector<std::byte> bytes(50 * spmm::input_record_bytes(1));
    source.read(0, 50, bytes.data());
    return std::pair(whole.num_reads, whole.num_records);
  };
  CHECK(read(1) == std::pair<std::uint64_t, std::uint64_t>(1, 50));
  CHECK(read(100) == std::pair<std::uint64_t, std::uint64_t>(1, 4901));
  CHECK(read(10'000) == std::pair<std::uint64_t, std::uint64_t>(50, 50));
}

TEST_CASE("numbers beyond the limit are refused") {
  const NumberedSource whole(100'000);
  StoreLimit limit(1'300'000);
  RecordStore store(kSentHeadBytes, limit);
  for (std::uint32_t r = 0; r < 100'000; ++r) add(store, r);
  CHECK_THROWS_AS(PickedSource(whole, store, limit), spmm::OutOfMemory);
}
