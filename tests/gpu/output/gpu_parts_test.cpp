// Results in ranges and in parts on one GPU: the same bytes as in one piece, and all ranges grow at once.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/records/errors.hpp"
#include "spmm/spmm.hpp"
#include "support/battery.hpp"
#include "support/catch.hpp"
#include "support/gpu_kernels.hpp"
#include "support/memory_stream.hpp"
#include "support/product_cases.hpp"
#include "support/wrapped_calls.hpp"

namespace {

using namespace spmm;
using test::on_gpu;
namespace fs = std::filesystem;

/// The records of a product as a file has them.
std::string packed_records(const ProductMatrix& product) {
  std::string bytes;
  const std::size_t value_bytes = std::size_t{product.m} * product.m * sizeof(std::uint32_t);
  for (std::size_t x = 0; x < product.index.size(); ++x) {
    bytes.append(reinterpret_cast<const char*>(&product.index[x]), kIndexBytes);
    bytes.append(reinterpret_cast<const char*>(product.block(x)), value_bytes);
  }
  return bytes;
}

/// Keeps every range as a string, and the order in which they have grown.
class RangesSink : public Sink {
 public:
  RangesSink(std::uint32_t m, std::uint32_t num_ranges, bool takes_places)
      : record_bytes_(output_record_bytes(m)), ranges_(num_ranges), takes_places_(takes_places) {}

  [[nodiscard]] std::uint32_t num_ranges() const override { return static_cast<std::uint32_t>(ranges_.size()); }
  [[nodiscard]] bool takes_places() const override { return takes_places_; }
  void set_ranges(std::span<const BlockRows> ranges) override { rows_.assign(ranges.begin(), ranges.end()); }
  void append_at(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records,
                 std::function<void()> release) override {
    std::string& bytes = ranges_.at(range);
    const std::size_t at = first_block * record_bytes_;
    bytes.resize(std::max(bytes.size(), at + records.size()));
    std::memcpy(bytes.data() + at, records.data(), records.size());
    taken(range, records);
    release();
  }
  void append_to(std::uint32_t range, std::span<const std::byte> records, std::function<void()> release) override {
    ranges_.at(range).append(reinterpret_cast<const char*>(records.data()), records.size());
    taken(range, records);
    release();
  }
  void append(std::span<const std::byte> records, std::function<void()> release) override {
    append_to(0, records, std::move(release));
  }
  void finish(const MatrixHeader& header) override { num_blocks = header.num_blocks; }
  void publish() override {}

  [[nodiscard]] std::string all() const {
    std::string bytes;
    for (const std::string& range : ranges_) bytes += range;
    return bytes;
  }
  /// How many ranges had records before the first one of those was complete.
  [[nodiscard]] std::size_t num_growing() const {
    const auto end = [&](std::uint32_t range) { return std::find(order_.rbegin(), order_.rend(), range).base(); };
    auto first_end = order_.end();
    for (std::uint32_t range = 0; range < ranges_.size(); ++range) {
      if (!ranges_[range].empty()) first_end = std::min(first_end, end(range));
    }
    return std::set<std::uint32_t>(order_.begin(), first_end).size();
  }

  std::uint32_t num_blocks = 0;
  bool all_inside = true;  ///< every record lay in the block rows of its range
  std::function<void()> on_append;

 private:
  void taken(std::uint32_t range, std::span<const std::byte> records) {
    if (on_append) on_append();
    order_.push_back(range);
    for (std::size_t at = 0; at < records.size(); at += record_bytes_) {
      std::uint32_t row = 0;
      std::memcpy(&row, records.data() + at, sizeof row);
      all_inside = all_inside && row >= rows_.at(range).begin && row < rows_.at(range).end;
    }
  }

  std::uint64_t record_bytes_;
  std::vector<std::string> ranges_;
  std::vector<BlockRows> rows_;
  std::vector<std::uint32_t> order_;
  bool takes_places_;
};

bool suits_parts(const std::string& kernel, const BlockMatrix& a) {
  if (kernel.starts_with("dense-") || kernel == "tile-tensor") return a.n <= 10'000;
  if (kernel == "row-spread" || kernel == "small-blocks") return a.n / a.m <= 100'000;
  return true;
}

std::vector<std::string> kernels_for(const BlockMatrix& a) {
  std::vector<std::string> names = {"auto"};
  for (const std::string& kernel : test::kernels_here()) {
    if (test::takes_operands(kernel, a.m, a.n / a.m) && suits_parts(kernel, a)) names.push_back(kernel);
  }
  return names;
}

std::string file_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The records of a folder of parts, one file behind the other.
std::string joined(const fs::path& folder, std::uint32_t num_parts) {
  std::string all;
  for (std::uint32_t part = 0; part < num_parts; ++part) {
    const std::string number = std::to_string(1000 + part).substr(1);
    all += file_bytes(folder / ("part-" + number + ".bin")).substr(kHeaderBytes);
  }
  return all;
}

/// A folder that goes with everything in it.
struct PartsFolder {
  fs::path path = fs::temp_directory_path() / ("spmm-parts-" + std::to_string(::getpid()));
  PartsFolder() { fs::create_directories(path); }
  ~PartsFolder() { fs::remove_all(path); }
  PartsFolder(const PartsFolder&) = delete;
  PartsFolder& operator=(const PartsFolder&) = delete;
};

}  // namespace

TEST_CASE("parts on a GPU: the battery in ranges, every kernel, in order and at places") {
  Engine engine;
  for (const test::Recipe& recipe : test::battery()) {
    for (const std::uint32_t m : {1u, 4u, 8u, 16u}) {
      const test::Operands operands = recipe.make(m, 1);
      const std::string expected = packed_records(test::oracle_multiply(operands.first, operands.second));
      for (const std::string& kernel : kernels_for(operands.first)) {
        for (const bool places : {true, false}) {
          INFO(recipe.name << ", m " << m << ", kernel " << kernel << (places ? ", at places" : ", in order"));
          RangesSink sink(m, 3, places);
          engine.multiply(test::MemorySource(operands.first), test::MemorySource(operands.second), sink,
                          on_gpu(kernel));
          REQUIRE((sink.all() == expected));
          REQUIRE(sink.all_inside);
        }
      }
    }
  }
}

TEST_CASE("parts on a GPU: many panels, all ranges grow at once") {
  for (const std::uint32_t m : {4u, 8u}) {
    const BlockMatrix a = test::random_matrix(8192, m, 60'000 * (8 / m), 65'535, 1);
    const BlockMatrix b = test::random_matrix(8192, m, 60'000 * (8 / m), 65'535, 2);
    const std::string expected = packed_records(multiply(a, b, on_gpu()));
    for (const std::string& kernel : kernels_for(a)) {
      if (kernel == "host-driven") continue;  // a launch for each C block
      for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{600} << 20}) {
        INFO("m " << m << ", kernel " << kernel << ", limit " << limit);
        Options options = on_gpu(kernel);
        options.memory_limit_bytes = limit;
        RangesSink sink(m, 5, true);
        const Report report = Engine(options).multiply(test::MemorySource(a), test::MemorySource(b), sink, options);
        REQUIRE((sink.all() == expected));
        CHECK(sink.all_inside);
        CHECK(sink.num_blocks == expected.size() / output_record_bytes(m));
        CHECK(report.num_panels == report.plan.expected_panels);
        CHECK(report.plan.devices.size() == 1);
        if (limit == 0) continue;
        CHECK(report.peak_device_bytes <= limit);
        CHECK(report.num_panels >= 10);  // two panels of each range at least
        CHECK(sink.num_growing() == 5);
      }
    }
  }
}

TEST_CASE("parts on a GPU: files joined are the file without parts") {
  const PartsFolder folder;
  const auto path = [&](const char* name) { return folder.path / name; };
  write_matrix(path("a.bin"), test::random_matrix(8192, 8, 80'000, 65'535, 3));
  write_matrix(path("b.bin"), test::random_matrix(8192, 8, 80'000, 65'535, 4));
  multiply(path("a.bin"), path("b.bin"), path("one.bin"), on_gpu());
  const std::string expected = file_bytes(path("one.bin")).substr(kHeaderBytes);
  for (const std::uint32_t num_parts : {1u, 2u, 8u, 40u}) {
    for (const std::uint32_t verify : {0u, 20u}) {  // verification takes records in order
      INFO(num_parts << " parts, verify " << verify);
      Options options = on_gpu();
      options.num_parts = num_parts;
      options.verify_blocks = verify;
      const Report report = multiply(path("a.bin"), path("b.bin"), path("parts"), options);
      REQUIRE(report.parts.size() == num_parts);
      REQUIRE((joined(path("parts"), num_parts) == expected));
    }
  }
  Options proven = on_gpu();
  proven.num_parts = 8;
  proven.verify_full = true;
  multiply(path("a.bin"), path("b.bin"), path("parts"), proven);
  REQUIRE((joined(path("parts"), 8) == expected));
}

TEST_CASE("parts on a GPU: failures are what they are without ranges, and the engine goes on") {
  const test::ProductCase good = test::make_product_case(8, 100, 3000, "auto");
  const std::string expected = packed_records(good.expected);
  Engine engine;
  const auto run = [&](RangesSink& sink, const ProductOptions& options = on_gpu()) {
    return engine.multiply(test::MemorySource(good.a), test::MemorySource(good.b), sink, options);
  };
  for (const bool places : {true, false}) {
    RangesSink broken(8, 3, places);
    broken.on_append = [] { throw IoError("sink", "is full", "-"); };
    CHECK_THROWS_AS(run(broken), IoError);
    most_output_blocks = good.expected.index.size() - 1;
    RangesSink small(8, 3, places);
    CHECK_THROWS_AS(run(small), OutOfMemory);
    most_output_blocks = kMostOutputBlocks;
    std::atomic<bool> cancel{false};
    ProductOptions cancelled = on_gpu();
    cancelled.cancel = &cancel;
    RangesSink stopped(8, 3, places);
    stopped.on_append = [&] { cancel = true; };
    CHECK_THROWS_AS(run(stopped, cancelled), Interrupted);
    RangesSink whole(8, 3, places);
    std::uint64_t rows_done = 0;
    std::uint64_t num_rows = 0;
    ProductOptions watched = on_gpu();
    watched.on_progress = [&](Stage stage, std::uint64_t done, std::uint64_t total) {
      if (stage != Stage::multiply) return;
      CHECK(done > rows_done);
      rows_done = done;
      num_rows = total;
    };
    run(whole, watched);
    CHECK((whole.all() == expected));
    CHECK(rows_done == num_rows);
  }
}
