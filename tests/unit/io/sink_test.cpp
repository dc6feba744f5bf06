// The file sink: order, visibility, release of the caller's bytes, failures.
#include <atomic>
#include <deque>

#include "base/records/errors.hpp"
#include "io/files/file_sink.hpp"
#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "support/process.hpp"
#include "unit/io/io_support.hpp"

namespace {

using namespace spmm;
using namespace spmm::test;
using io::TempKind;

constexpr std::uint32_t kSinkSide = 2;
constexpr std::size_t kRecord = output_record_bytes(kSinkSide);

/// Writes slices to a sink and counts how often each is released; outlives the sink.
class Writer {
 public:
  explicit Writer(const std::string& records) : records_(records) {}

  /// All records, in slices of 0, 1, 2, ... max_records records.
  void write_all(Sink& sink, std::size_t max_records) {
    std::size_t at = 0;
    for (std::size_t slice = 0; at < records_.size(); ++slice) {
      const std::size_t bytes = std::min(slice % (max_records + 1) * kRecord, records_.size() - at);
      write(sink, at, bytes);
      at += bytes;
    }
  }
  void write(Sink& sink, std::size_t at, std::size_t bytes) {
    std::atomic<int>& count = releases_.emplace_back(0);
    sink.write(at / kRecord, std::as_bytes(std::span(records_).subspan(at, bytes)), [&count] { ++count; });
  }
  [[nodiscard]] bool each_released_once() const {
    return std::all_of(releases_.begin(), releases_.end(), [](const auto& count) { return count == 1; });
  }
  [[nodiscard]] std::size_t num_slices() const { return releases_.size(); }

 private:
  const std::string& records_;
  std::deque<std::atomic<int>> releases_;
};

MatrixHeader header_of(std::uint32_t num_blocks) {
  return {.n = 400, .m = kSinkSide, .num_blocks = num_blocks};
}

std::string file_of(std::uint32_t num_blocks, const std::string& records) {
  return header_bytes(400, kSinkSide, num_blocks) + records;
}

TEST_CASE("slices at their places, in any order, give the same file; a gap or an overlap does not") {
  const TemporaryFolder folder;
  const std::string records = result_records(kSinkSide, 1000);
  const std::size_t slice = 10;
  for (const unsigned writers : {0u, 1u, 3u}) {
    for (const bool maps : {false, true}) {
      for (const char* fault : {"", "gap", "overlap"}) {
        INFO(writers << " writers, " << fault);
        const auto path = folder / "c.bin";
        std::atomic<int> released{0};
        const auto sink = io::open_tuned_file_sink(path, kSinkSide, {}, {.maps = maps, .num_writers = writers});
        REQUIRE(sink->takes_places());
        for (std::size_t x = 0; x < 100; ++x) {
          const std::size_t place = x * 37 % 100 * slice;  // 37 and 100 have no common factor
          if (std::string(fault) == "gap" && place == 500) continue;
          const auto bytes = std::as_bytes(std::span(records)).subspan(place * kRecord, slice * kRecord);
          sink->write(place, bytes, [&] { ++released; });
          if (std::string(fault) == "overlap" && x == 0) sink->write(place, bytes, [&] { ++released; });
        }
        if (std::string(fault).empty()) {
          sink->finish(header_of(1000));
          sink->publish();
          CHECK(released == 100);
          CHECK((bytes_of(path) == file_of(1000, records)));
        } else {
          CHECK_THROWS_AS(sink->finish(header_of(1000)), std::logic_error);
        }
      }
    }
  }
}

TEST_CASE("until it is published an output leaves the old content alone, and nothing behind") {
  const TemporaryFolder folder;
  const std::string records = result_records(kSinkSide, 500);
  Writer writer(records);
  write_bytes(folder / "c.bin", "old");
  for (const TempKind temp : {TempKind::automatic, TempKind::named}) {
    for (const bool finished : {false, true}) {
      {
        const auto sink = io::open_tuned_file_sink(folder / "c.bin", kSinkSide, {}, {.temp = temp, .piece_bytes = 7});
        writer.write_all(*sink, 50);
        if (finished) sink->finish(header_of(500));
        CHECK(bytes_of(folder / "c.bin") == "old");
        const auto names = folder.names();
        if (temp == TempKind::named || !has_unnamed_files(folder.path())) {
          REQUIRE(names.size() == 2);
          CHECK(names[0].starts_with(".c.bin.spmm-"));
          CHECK(names[0].ends_with(".tmp"));
          CHECK(names[0].size() == std::string(".c.bin.spmm-XXXXXX.tmp").size());
        } else {
          CHECK(names == std::vector<std::string>{"c.bin"});
        }
      }
      CHECK(bytes_of(folder / "c.bin") == "old");
      CHECK(folder.names() == std::vector<std::string>{"c.bin"});
      CHECK(writer.each_released_once());
    }
  }
}

TEST_CASE("misuse is a logic error that changes nothing") {
  const TemporaryFolder folder;
  const std::string records = result_records(kSinkSide, 5);
  Writer writer(records);
  write_bytes(folder / "c.bin", "old");
  {
    const auto sink = open_file_sink(folder / "c.bin", kSinkSide, {});
    CHECK_THROWS_AS(writer.write(*sink, 0, kRecord + 1), std::logic_error);
    CHECK(writer.each_released_once());
    writer.write(*sink, 0, 3 * kRecord);
    CHECK_THROWS_AS(sink->publish(), std::logic_error);
    CHECK_THROWS_AS(sink->finish(header_of(4)), std::logic_error);
    CHECK_THROWS_AS(sink->finish({.n = 400, .m = 4, .num_blocks = 3}), std::logic_error);
    CHECK(bytes_of(folder / "c.bin") == "old");
    sink->finish(header_of(3));
    sink->publish();
    CHECK_THROWS_AS(sink->publish(), std::logic_error);
  }
  CHECK((bytes_of(folder / "c.bin") == file_of(3, records.substr(0, 3 * kRecord))));
}

TEST_CASE("a failed write is told once it is known, and every slice is released once") {
  const std::string records = result_records(kSinkSide, 2000);
  for (const unsigned writers : {1u, 2u, 5u}) {
    Writer writer(records);
    std::string message;
    {
      const auto sink =
          io::open_tuned_file_sink("/dev/full", kSinkSide, {}, {.num_writers = writers, .piece_bytes = 50});
      message = message_of<IoError>([&] {
        writer.write_all(*sink, 10);
        sink->finish(header_of(2000));
      });
      CHECK(message_of<IoError>([&] { sink->finish(header_of(2000)); }) == message);
      CHECK(message_of<IoError>([&] { writer.write(*sink, 0, kRecord); }) == message);
      CHECK_THROWS_AS(sink->publish(), std::logic_error);
      CHECK(writer.each_released_once());
    }
    INFO(message);
    CHECK(writer.num_slices() > 1);
    CHECK(writer.each_released_once());
    CHECK(names_place_and_hint(message, "/dev/full"));
    CHECK(has(message, "byte offset "));
    CHECK(has(message, "No space left on device"));
    CHECK(has(message, "after 0 bytes"));
  }
}

TEST_CASE("where no writer thread can be started write() writes") {
  if (!kForksWithThreads) {
    WARN("not with this sanitizer or emulator");
    return;
  }
  const TemporaryFolder folder;
  const std::string records = result_records(kSinkSide, 300);
  for (const unsigned limit : {0u, 2u}) {
    const int status = exit_status_under_thread_limit(limit, [&] {
      Writer writer(records);
      const auto sink =
          io::open_tuned_file_sink(folder / "c.bin", kSinkSide, {}, {.num_writers = 4, .piece_bytes = 100});
      writer.write_all(*sink, 9);
      sink->finish(header_of(300));
      sink->publish();
      return writer.each_released_once() ? 0 : 1;
    });
    CHECK(status == 0);
    CHECK((bytes_of(folder / "c.bin") == file_of(300, records)));
    std::filesystem::remove(folder / "c.bin");
  }
  const auto sink = io::open_tuned_file_sink("/dev/full", kSinkSide, {}, {.num_writers = 0});
  Writer writer(records);
  CHECK_NOTHROW(writer.write(*sink, 0, kRecord));
  CHECK_THROWS_AS(writer.write(*sink, kRecord, kRecord), IoError);
  CHECK_THROWS_AS(sink->finish(header_of(2)), IoError);
  CHECK(writer.each_released_once());
}

}  // namespace
