// Several devices, played by threads, hand the pieces of a result to one sink: the same bytes whatever their pace.
#include "cuda/output/common_output.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "base/records/errors.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/memory_stream.hpp"
#include "support/wrapped_calls.hpp"

namespace {

using namespace spmm;
using namespace spmm::cuda;

constexpr std::uint32_t kM = 2;
constexpr std::uint32_t kRows = 200;
constexpr std::size_t kRecord = output_record_bytes(kM);

std::uint32_t blocks_of_row(std::uint32_t row) {
  return row * 2'654'435'761u % 7;
}

std::string records_of_rows(std::uint32_t begin, std::uint32_t end) {
  std::string all;
  for (std::uint32_t i = begin; i < end; ++i) {
    for (std::uint32_t j = 0; j < blocks_of_row(i); ++j) {
      std::string record(kRecord, static_cast<char>('a' + (i + j) % 26));
      std::memcpy(record.data(), &i, sizeof i);
      std::memcpy(record.data() + sizeof i, &j, sizeof j);
      all += record;
    }
  }
  return all;
}

/// Keeps the records as a string; may want records in order, and may fail.
class StringSink : public Sink {
 public:
  explicit StringSink(bool takes_places) : takes_places_(takes_places) {}

  [[nodiscard]] bool takes_places() const override { return takes_places_; }
  void write(std::uint64_t first_block, std::span<const std::byte> records, Release release) override {
    const Entered entered(*this);
    if (!takes_places_ && first_block * kRecord != bytes_.size()) throw std::logic_error("not in order");
    bytes_.resize(std::max<std::size_t>(bytes_.size(), first_block * kRecord + records.size()));
    std::memcpy(bytes_.data() + first_block * kRecord, records.data(), records.size());
    release();
    count_write();
  }
  void finish(const MatrixHeader&) override {}
  void publish() override {}

  [[nodiscard]] const std::string& all() const { return bytes_; }
  [[nodiscard]] bool was_entered_twice() const { return was_entered_twice_; }

  int fails_after = -1;  ///< calls of write

 private:
  struct Entered {
    explicit Entered(StringSink& sink) : of(sink) {
      if (of.inside_.exchange(true)) of.was_entered_twice_ = true;
    }
    ~Entered() { of.inside_ = false; }
    StringSink& of;
  };
  void count_write() {
    if (fails_after >= 0 && num_writes_++ >= fails_after) throw IoError("sink", "is full", "-");
  }

  std::string bytes_;
  bool takes_places_;
  int num_writes_ = 0;
  std::atomic<bool> inside_{false};
  std::atomic<bool> was_entered_twice_{false};
};

/// What a product is made of.
struct Product {
  explicit Product(std::uint32_t num_devices) {
    plan::RowPairs pairs{.rows_per_run = 1, .num_rows = kRows};
    for (std::uint32_t row = 0; row < kRows; ++row) pairs.offsets.push_back(pairs.offsets.back() + 1 + row % 5);
    execution.panels = plan::cut_panels(pairs, kRows, 10 * kRows, plan::Listing::never);
    plan::share_out(execution.panels, num_devices, false);
  }
  plan::Choice execution;
};

struct Setting {
  std::uint32_t num_devices = 2;
  int failing_device = -1;
  const std::atomic<bool>* cancel = nullptr;
};

/// What a device does, at a pace of its own: panels one after the other.
void play_device(std::uint32_t d, const Product& product, CommonOutput& shared, const Setting& setting, unsigned seed) {
  std::mt19937 random(seed + d);
  plan::Choice execution = product.execution;
  shared.start(d, execution);
  for (std::size_t x = 0; x < execution.panels.size(); ++x) {
    if (static_cast<int>(d) == setting.failing_device && x == execution.panels.size() / 2) {
      throw DeviceError("GPU", "has gone", "-");
    }
    const plan::Panel& panel = execution.panels[x];
    const std::string records = records_of_rows(panel.row_begin, panel.row_begin + panel.num_rows);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    shared.begin(panel.number, records.size() / kRecord);
    for (std::size_t at = 0; at < records.size(); at += 2 * kRecord) {
      const std::size_t bytes = std::min(2 * kRecord, records.size() - at);
      shared.append(panel.number, std::as_bytes(std::span(records)).subspan(at, bytes), [] {});
    }
    shared.end(panel.number);
  }
}

/// Runs all devices. Errors: the first failure.
void play(StringSink& sink, const Setting& setting, unsigned seed, const ProgressFn& on_progress = {}) {
  StageClock clock;
  const Run run{.clock = clock, .on_progress = on_progress, .cancel = setting.cancel};
  const Product product(setting.num_devices);
  Output output(sink);
  CommonOutput shared(output, kM, setting.num_devices, run);
  {
    std::vector<std::jthread> devices;
    for (std::uint32_t d = 0; d < setting.num_devices; ++d) {
      devices.emplace_back([&, d] {
        try {
          play_device(d, product, shared, setting, seed);
        } catch (...) {
          shared.fail(std::current_exception());
        }
      });
    }
  }
  shared.rethrow_failure();
}

}  // namespace

TEST_CASE("common output: any number of devices, in order or at places, give the same bytes") {
  const std::string expected = records_of_rows(0, kRows);
  for (const bool places : {false, true}) {
    for (const std::uint32_t num_devices : {1u, 2u, 3u, 5u}) {
      for (unsigned seed = 0; seed < 3; ++seed) {
        INFO(num_devices << " devices, " << (places ? "at places" : "in order"));
        StringSink sink(places);
        std::uint64_t rows = 0;
        std::uint64_t total = 0;
        play(sink, {.num_devices = num_devices}, seed,
             [&](Stage, std::uint64_t done, std::uint64_t all) { rows = done, total = all; });
        CHECK((sink.all() == expected));
        CHECK_FALSE(sink.was_entered_twice());
        CHECK(rows == kRows);
        CHECK(total == kRows);
      }
    }
  }
}

TEST_CASE("common output: the first failure ends all devices, whoever waits for whom") {
  for (const bool places : {false, true}) {
    for (int device = 0; device < 3; ++device) {
      StringSink sink(places);
      CHECK_THROWS_AS(play(sink, {.num_devices = 3, .failing_device = device}, 1), DeviceError);
    }
    for (const int appends : {0, 5, 100}) {
      StringSink sink(places);
      sink.fails_after = appends;
      CHECK_THROWS_AS(play(sink, {.num_devices = 3}, 1), IoError);
    }
    const std::atomic<bool> cancel{true};
    StringSink sink(places);
    CHECK_THROWS_AS(play(sink, {.cancel = &cancel}, 1), Interrupted);
    test::most_output_blocks = records_of_rows(0, kRows).size() / kRecord - 1;
    CHECK_THROWS_AS(play(sink, {}, 1), OutOfMemory);
    test::most_output_blocks = test::kMostOutputBlocks;
  }
}

TEST_CASE("common output: devices that decide differently are an error of the program") {
  StageClock clock;
  const ProgressFn none;
  const Run run{.clock = clock, .on_progress = none};
  StringSink sink(true);
  Output output(sink);
  CommonOutput shared(output, kM, 2, run);
  Product product(2);
  plan::Choice first = product.execution;
  shared.start(0, first);
  product.execution.panels.pop_back();
  CHECK_THROWS_AS(shared.start(1, product.execution), std::logic_error);
}
