// The result in parts, each written by one rank.
#include "mpi/output/parts.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/records/release_once.hpp"
#include "base/text.hpp"
#include "io/system/retried.hpp"
#include "mpi/output/rank_reports.hpp"
#include "spmm/error.hpp"

namespace spmm::mpi {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_from(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

PartsOutput::PartsOutput(const Communicator& ranks, const FileSinkOptions& options, std::uint32_t num_parts,
                         unsigned num_writers)
    : ranks_(ranks),
      options_(options),
      num_parts_(num_parts),
      num_writers_(num_writers),
      order_(order_of_parts(static_cast<std::uint32_t>(ranks.size()), num_parts)) {}

void PartsOutput::create(const std::filesystem::path& path) {
  folder_ = std::make_unique<io::PartsFolder>(path, options_, io::parts_file_names(num_parts_), io::OtherRuns::refused);
  name_ = folder_->name();
  parent_ = folder_->parent();
}

Bytes PartsOutput::ticket() const {
  if (!folder_) return {};
  const std::string words =
      name_ + std::string(1, '\0') + parent_ + std::string(1, '\0') + folder_->temporary_path().string();
  Bytes bytes(words.size());
  std::memcpy(bytes.data(), words.data(), words.size());
  return bytes;
}

void PartsOutput::open(const Bytes& ticket) {
  const std::string words(reinterpret_cast<const char*>(ticket.data()), ticket.size());
  const std::size_t first = words.find('\0');
  const std::size_t second = words.find('\0', first + 1);
  name_ = words.substr(0, first);
  parent_ = words.substr(first + 1, second - first - 1);
  const std::string path = words.substr(second + 1);
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  opened_ = io::Descriptor(io::retried([&] { return ::open(path.c_str(), kFlags); }));
  if (opened_.is_open()) return;
  throw OutputError(
      name_, text("this machine does not see the folder ", path, " that rank 0 has made (", io::error_text(errno), ")"),
      "give an output path on a file system that all nodes share");
}

void PartsOutput::start(const Division& division, const MatrixHeader& header) {
  division_ = &division;
  header_ = header;
  news_ = std::make_unique<FailureMessage>();
  const std::uint32_t owner = order_.owner_of_rank(static_cast<std::uint32_t>(ranks_.rank()));
  if (owner == order_.num_owners) return;
  const NumberRange own = parts_of_owner(order_, num_parts_, owner);
  const auto place_of = [&](const std::string& file_name) {
    if (folder_) return folder_->place_of(file_name);
    return io::place_inside(opened_.get(), file_name, name_, parent_);
  };
  files_ = std::make_unique<io::PartFiles>(header.m, io::PartFiles::Range{.first = own.begin, .count = own.size()},
                                           place_of, options_, io::fastest_tuning(num_writers_, 1, own.size()));
}

BlockRows PartsOutput::rows_of(std::uint32_t begin, std::uint32_t end) const {
  const std::uint32_t owner = order_.owner_of_rank(static_cast<std::uint32_t>(ranks_.rank()));
  const auto first_row = [&](std::uint32_t round) {
    const std::uint64_t range = std::uint64_t{owner} * division_->num_rounds + round;
    if (range == 0) return std::uint32_t{0};
    return range > division_->borders.size() ? header_.blocks_per_side() : division_->borders[range - 1];
  };
  return {.begin = first_row(begin), .end = first_row(end)};
}

void PartsOutput::open_until(std::uint32_t round) {
  open_end_ = round;
  if (!has_parts()) return;
  const std::uint32_t before = filled_.end;
  filled_ = parts_of_rounds(files_->size(), division_->num_rounds, round_, round);
  open_rows_ = rows_of(round_, round);
  const bool goes_on = filled_.begin < before;
  if (!goes_on) first_row_ = open_rows_.begin;
  blocks_before_ = files_->num_blocks(filled_.begin);
  // Until the product has cut them, all rows are those of the last one.
  for (std::uint32_t part = filled_.begin; part < filled_.end; ++part) {
    const bool is_last = part + 1 == filled_.end;
    files_->set_rows(part, {.begin = first_row_, .end = is_last ? open_rows_.end : first_row_});
  }
}

void PartsOutput::set_ranges(std::span<const BlockRows> ranges) {
  for (std::uint32_t x = 0; x < ranges.size(); ++x) {
    const bool is_last = x + 1 == ranges.size();
    const auto clamped = [&](std::uint32_t row) { return std::clamp(row, open_rows_.begin, open_rows_.end); };
    files_->set_rows(filled_.begin + x, {.begin = x == 0 ? first_row_ : clamped(ranges[x].begin),
                                         .end = is_last ? open_rows_.end : clamped(ranges[x].end)});
  }
}

void PartsOutput::check_others() const {
  if (news_->has_arrived()) throw OtherRankFailed();
}

void PartsOutput::append(std::span<const std::byte> records, std::function<void()> release) {
  append_to(0, records, std::move(release));
}

void PartsOutput::append_to(std::uint32_t range, std::span<const std::byte> records, std::function<void()> release) {
  ReleaseOnce release_at_end(std::move(release));
  if (records.empty()) return;
  check_others();
  files_->append(filled_.begin + range, records, release_at_end.hand_on());
}

void PartsOutput::append_at(std::uint32_t range, std::uint64_t first_block, std::span<const std::byte> records,
                            std::function<void()> release) {
  ReleaseOnce release_at_end(std::move(release));
  if (records.empty()) return;
  check_others();
  files_->append_at(filled_.begin + range, first_block + (range == 0 ? blocks_before_ : 0), records,
                    release_at_end.hand_on());
}

void PartsOutput::close_open_rounds() {
  round_ = open_end_;
  if (!has_parts()) return;
  const auto start = Clock::now();
  files_->drain();
  write_s_ += seconds_from(start);
}

void PartsOutput::close_here() {
  if (!has_parts()) return;
  const auto start = Clock::now();
  own_parts_ = files_->finish(header_, rows_of(0, division_->num_rounds));
  for (const ResultPart& part : own_parts_) own_num_blocks_ += part.num_blocks;
  write_s_ += seconds_from(start);
}

void PartsOutput::gather() {
  news_.reset();
  for (const Bytes& of_rank : ranks_.gather(encode(own_parts_))) {
    const std::vector<ResultPart> some = decode_parts(of_rank);
    parts_.insert(parts_.end(), some.begin(), some.end());
  }
  for (const ResultPart& part : parts_) num_blocks_ += part.num_blocks;
}

void PartsOutput::make_visible() {
  if (parts_.size() != num_parts_) {
    throw std::logic_error(text(name_, ": ", parts_.size(), " parts, expected ", num_parts_));
  }
  folder_->write_index(io::index_of(header_, parts_));
  folder_->publish();
}

}  // namespace spmm::mpi
