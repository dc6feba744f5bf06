// A result cut into parts while it is written.
#include "io/parts/sink.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/run/parallel.hpp"
#include "base/text.hpp"
#include "io/formats/parts_index.hpp"
#include "io/parts/files.hpp"
#include "io/parts/folder.hpp"

namespace spmm::io {
namespace {

class FolderSink final : public PartsSink {
 public:
  FolderSink(const std::filesystem::path& path, std::uint32_t m, std::uint32_t num_parts,
             const FileSinkOptions& options, const FileSinkTuning& tuning)
      : m_(m),
        folder_(path, options, parts_file_names(num_parts), tuning.other_runs),
        files_(
            m, {.first = 0, .count = num_parts}, [this](const std::string& name) { return folder_.place_of(name); },
            options, tuning) {}

  [[nodiscard]] std::uint32_t num_ranges() const override { return files_.size(); }
  [[nodiscard]] std::uint64_t max_blocks() const override { return std::numeric_limits<std::uint64_t>::max(); }

  void set_ranges(std::span<const BlockRows> ranges) override {
    if (ranges.size() != files_.size()) {
      throw std::logic_error(text(folder_.name(), ": ", ranges.size(), " ranges for ", files_.size(), " parts"));
    }
    for (std::uint32_t x = 0; x < ranges.size(); ++x) files_.set_rows(x, ranges[x]);
  }

  void append(std::span<const std::byte> records, std::function<void()> release) override {
    append_to(0, records, std::move(release));
  }

  void append_to(std::uint32_t range, std::span<const std::byte> records, std::function<void()> release) override {
    files_.append(range, records, std::move(release));
  }

  [[nodiscard]] bool takes_places() const override { return true; }

  void append_at(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records,
                 std::function<void()> release) override {
    files_.append_at(range, first_block, records, std::move(release));
  }

  bool watch(LookFn look) override {
    files_.watch(std::move(look));
    return true;
  }

  bool read_back(std::uint32_t range, std::uint64_t first_block, std::uint64_t count, std::byte* dst) override {
    return files_.read_back(range, first_block, count, dst);
  }

  void finish(const MatrixHeader& header) override {
    const PartsIndex index = index_of(header, files_.finish(header, {.begin = 0, .end = header.blocks_per_side()}));
    if (header.m != m_ || header.num_blocks != std::min<std::uint64_t>(index.num_blocks, 0xFFFF'FFFFu)) {
      throw std::logic_error(text(folder_.name(), ": finish() with ", header.num_blocks, " blocks of side ", header.m,
                                  " after ", index.num_blocks, " of side ", m_));
    }
    folder_.write_index(index);
    written_ = index.parts;
    finished_ = true;
  }

  void publish() override {
    if (!finished_) throw std::logic_error(folder_.name() + ": publish() without finish(), or twice");
    finished_ = false;
    folder_.publish();
  }

  [[nodiscard]] const std::vector<ResultPart>& parts() const override { return written_; }

 private:
  std::uint32_t m_;
  PartsFolder folder_;
  PartFiles files_;
  std::vector<ResultPart> written_;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<PartsSink> open_tuned_parts_sink(const std::filesystem::path& path, std::uint32_t m,
                                                 std::uint32_t num_parts, const FileSinkOptions& options,
                                                 const FileSinkTuning& tuning) {
  return std::make_unique<FolderSink>(path, m, num_parts, options, tuning);
}

}  // namespace spmm::io

namespace spmm {

std::unique_ptr<Sink> open_parts_sink(const std::filesystem::path& path, std::uint32_t m, std::uint32_t num_parts,
                                      const FileSinkOptions& options) {
  constexpr std::uint32_t kMaxParts = 256;
  if (num_parts == 0 || num_parts > kMaxParts) {
    throw std::logic_error(text(path.string(), ": ", num_parts, " parts, expected 1 to ", kMaxParts));
  }
  return io::open_tuned_parts_sink(path, m, num_parts, options, io::fastest_tuning(usable_cores(), 1, num_parts));
}

}  // namespace spmm
