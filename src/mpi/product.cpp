// The stages of a product that ranks share.
#include "mpi/product.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include "base/memory/aligned_array.hpp"
#include "base/memory/machine_memory.hpp"
#include "base/records/errors.hpp"
#include "base/temporary_names.hpp"
#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "cuda/backend.hpp"
#include "engine/product.hpp"
#include "io/factor_source.hpp"
#include "io/files/file_sink.hpp"
#include "io/files/paths.hpp"
#include "mpi/placed_records.hpp"
#include "mpi/rank_share.hpp"
#include "mpi/shared_file.hpp"
#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm::mpi {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Header and a digest (FNV-1a) of some records, the first and the last among them.
std::string description_of(const Source& source) {
  constexpr std::uint64_t kNumRecords = 16;
  const MatrixHeader& h = source.header();
  const AlignedArray<std::byte> record(input_record_bytes(h.m));
  const std::uint64_t count = std::min<std::uint64_t>(kNumRecords, h.num_blocks);
  std::uint64_t digest = 14695981039346656037u;
  for (std::uint64_t r = 0; r < count; ++r) {
    source.read((h.num_blocks - std::uint64_t{1}) * r / std::max<std::uint64_t>(1, count - 1), 1, record.data());
    for (const std::byte byte : record) digest = (digest ^ static_cast<std::uint64_t>(byte)) * 1099511628211u;
  }
  return text("n ", h.n, ", m ", h.m, ", ", h.num_blocks, " blocks with digest ", digest);
}

/// An input file of this rank.
struct Operand {
  std::unique_ptr<Source> source;
  std::string identity;  ///< when it was opened; empty for a file that had just been changed

  /// Ranks read at different times. Errors: FormatError.
  void check_unchanged() const {
    source->check_unchanged();
    if (identity.empty() || source->identity() == identity) return;
    throw FormatError(source->name(), "the file was changed while it was read",
                      "run again once nothing writes it, or give a copy");
  }
};

Operand open_operand(const fs::path& path) {
  Operand operand{.source = open_file_source(path), .identity = {}};
  operand.identity = operand.source->identity();
  return operand;
}

/// The product of this rank, stage by stage; every member is collective.
class RankProduct {
 public:
  RankProduct(const Communicator& ranks, const FailureOf& failure_of, const Options& options)
      : ranks_(ranks), stages_(ranks, failure_of), options_(options) {}

  DistributedReport run(const fs::path& a, const fs::path& b, const fs::path& out) {
    out_ = out.string();
    check_same_options();
    open(a, b, out);
    multiply(share());
    publish();
    return report();
  }

 private:
  [[nodiscard]] bool is_first() const { return ranks_.rank() == 0; }
  [[nodiscard]] const MatrixHeader& header() const { return a_.source->header(); }
  [[nodiscard]] Run work() {
    return {
        .clock = clock_, .on_progress = no_progress_, .cancel = options_.cancel, .num_threads = options_.num_threads};
  }

  void check_same_options() const;
  void open(const fs::path& a, const fs::path& b, const fs::path& out);
  void check_same_inputs() const;
  void open_output(const fs::path& a, const fs::path& b, const fs::path& out);
  void name_device();
  /// Finds the block rows of this rank; returns the C blocks in them, all-zero ones included, if they were counted.
  std::optional<std::uint64_t> share();
  /// Finds where each rank's records lie if it has that many bytes of them.
  void settle_places(std::uint64_t own_bytes);
  /// Values: num_blocks = of C in this rank's rows, as far as is known.
  void multiply(std::optional<std::uint64_t> num_blocks);
  /// Once, to the place that was found. Values: is_counted: the place is as large as C blocks were counted.
  void multiply_rows(bool is_counted, const std::atomic<bool>* stop);
  void publish();
  DistributedReport report();

  const Communicator& ranks_;
  Stages stages_;
  Options options_;
  StageClock clock_;
  ProgressFn no_progress_;
  Clock::time_point start_ = Clock::now();
  Operand a_;
  Operand b_;
  RowRange all_rows_{};  ///< of C, of all ranks
  RowRange rows_{};      ///< of this rank
  std::uint64_t limit_bytes_ = 0;
  SharedOutput output_;
  Place place_;
  std::uint64_t end_bytes_ = kHeaderBytes;  ///< of the output
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<PlacedRecords> records_;
  RankReport::Numbers did_;
  Report own_;       ///< of this rank's product
  std::string out_;  ///< for messages
};

/// Of what decides the result, and of what happens to the output. Ranks may differ in all other options.
void RankProduct::check_same_options() const {
  const auto given = [](bool is_on) { return std::string(is_on ? "given" : "left out"); };
  const RowRange rows = options_.rows;
  const Selection& kept = options_.selection;
  const std::vector<std::string> own = {
      out_,
      given(options_.transpose_a),
      given(options_.transpose_b),
      rows == RowRange{} ? "all rows" : text(rows.first, ":", rows.end),
      text(kept.upper_triangle ? "triangle, " : "", kept.no_diagonal ? "no diagonal, " : "", "at least ", kept.at_least,
           ", keep ", kept.keep),
      options_.on_saturation == OnSaturation::error ? "error" : "report",
      given(options_.no_clobber),
      given(options_.durable)};
  constexpr std::array kNames = {"OUT",
                                 "ProductOptions::transpose_a",
                                 "ProductOptions::transpose_b",
                                 "ProductOptions::rows",
                                 "ProductOptions::selection",
                                 "ProductOptions::on_saturation",
                                 "ProductOptions::no_clobber",
                                 "ProductOptions::durable"};
  const auto other = difference(ranks_, own);
  stages_.run([&] {
    if (other) throw UsageError(kNames.at(other->which), other->words, "give all ranks the same");
  });
}

void RankProduct::open(const fs::path& a, const fs::path& b, const fs::path& out) {
  const unsigned num_cores = ranks_.cores_per_rank();  // all ranks ask, also those that were given --threads
  if (options_.num_threads == 0) options_.num_threads = num_cores;
  stages_.run([&] {
    wanted_backend(options_);  // rejects unknown names before any file is opened
    name_device();
    a_ = open_operand(a);
    b_ = open_operand(b);
    check_shapes(*a_.source, *b_.source);
  });
  check_same_inputs();
  stages_.run([&] { all_rows_ = checked_rows(options_.rows, header().blocks_per_side()); });
  const auto local = static_cast<std::uint64_t>(ranks_.local_size());
  limit_bytes_ =
      options_.memory_limit_bytes != 0 ? options_.memory_limit_bytes : available_memory_bytes() / 10 * 9 / local;
  open_output(a, b, out);
}

/// Each rank opens the paths itself: on a node without the shared file system they may be other files.
void RankProduct::check_same_inputs() const {
  std::vector<std::string> found;
  stages_.run([&] { found = {description_of(*a_.source), description_of(*b_.source)}; });
  const auto other = difference(ranks_, found);
  stages_.run([&] {
    if (!other) return;
    throw InputError((other->which == 0 ? a_ : b_).source->name(), other->words,
                     "give paths on a file system that all nodes share");
  });
}

void RankProduct::open_output(const fs::path& a, const fs::path& b, const fs::path& out) {
  const FileSinkOptions how{.durable = options_.durable, .no_clobber = options_.no_clobber};
  stages_.run([&] {
    if (!is_first()) return;
    check_output_is_no_input(a, out);
    check_output_is_no_input(b, out);
    output_.create(out, how);
  });
  const Bytes ticket = ranks_.broadcast(output_.ticket(), 0);
  stages_.run([&] {
    if (!is_first()) output_.open(ticket, out_, how);
  });
}

/// The GPU that this rank's engine would start, for messages: before there is an engine, and where it fails to start.
void RankProduct::name_device() {
  std::string why_not;
  if (options_.backend == Backend::cpu || !cuda::may_start(why_not)) return;
  const auto count = static_cast<int>(visible_gpus().size());
  stages_.name_device(text("GPU ", options_.device >= 0 ? options_.device : ranks_.local_rank() % count));
}

std::optional<std::uint64_t> RankProduct::share() {
  const auto start = Clock::now();
  RankShare share;
  const std::uint64_t limit_bytes = ranks_.min(limit_bytes_);
  stages_.run_long(options_.cancel, [&](const std::atomic<bool>* stop) {
    Run run = work();
    run.cancel = stop;
    share = share_of_rank({.source = *a_.source, .is_transposed = options_.transpose_a},
                          {.source = *b_.source, .is_transposed = options_.transpose_b}, all_rows_,
                          static_cast<std::uint32_t>(ranks_.rank()), static_cast<std::uint32_t>(ranks_.size()),
                          limit_bytes, run);
  });
  rows_ = share.rows;
  did_.count_s = seconds_since(start);
  if (!options_.selection.is_all()) return std::nullopt;  // far fewer may be kept
  return share.num_blocks;
}

void RankProduct::settle_places(std::uint64_t own_bytes) {
  const std::vector<std::uint64_t> sizes = ranks_.gather(own_bytes);
  place_.begin = std::accumulate(sizes.begin(), sizes.begin() + ranks_.rank(), kHeaderBytes);
  place_.end = place_.begin + own_bytes;
  end_bytes_ = std::accumulate(sizes.begin(), sizes.end(), kHeaderBytes);
}

/// Places are too large if blocks of C turn out to be all zero, and hold nothing if C blocks could not be counted. Then
/// a second run has the true sizes.
void RankProduct::multiply(std::optional<std::uint64_t> num_blocks) {
  const auto start = Clock::now();
  const std::uint64_t record = output_record_bytes(header().m);
  for (bool is_placed = false; !is_placed; ++did_.num_runs) {
    settle_places(num_blocks.value_or(0) * record);
    stages_.run_long(options_.cancel,
                     [&](const std::atomic<bool>* stop) { multiply_rows(num_blocks.has_value(), stop); });
    const std::uint64_t found = records_->size_bytes() / record;
    is_placed = ranks_.min(found == num_blocks || output_.is_device() ? 1 : 0) == 1;
    const std::uint64_t all_blocks = ranks_.sum(found);
    stages_.run([&] {
      check_num_output_blocks(all_blocks);
      if (!is_placed && did_.num_runs != 0) throw_changed_content(a_.source->name());
    });
    num_blocks = found;
  }
  if (output_.is_device()) settle_places(records_->size_bytes());
  did_.wait_s = seconds_since(start) - did_.multiply_s;
}

void RankProduct::multiply_rows(bool is_counted, const std::atomic<bool>* stop) {
  const auto start = Clock::now();
  if (is_first()) output_.reserve(end_bytes_);
  records_ = std::make_unique<PlacedRecords>(output_, header().m, place_, is_first(),
                                             io::fastest_tuning(options_.num_threads).num_writers);
  if (rows_.first == rows_.end) return;
  ProductOptions of_rank = options_;
  of_rank.rows = rows_;
  of_rank.cancel = stop;
  of_rank.on_saturation = OnSaturation::report;  // the ranks decide together
  if (!is_counted && !output_.is_device()) {     // nothing is written this time
    of_rank.verify_blocks = 0;
    of_rank.verify_full = false;
  }
  if (!engine_) {
    EngineOptions how = options_;
    how.memory_limit_bytes = limit_bytes_;
    engine_ = std::make_unique<Engine>(how);
  }
  own_ = engine_->multiply(*a_.source, *b_.source, *records_, of_rank);
  if (own_.plan.backend == Backend::cpu) stages_.name_device("");
  did_.multiply_s += seconds_since(start);
}

void RankProduct::publish() {
  stages_.run([&] {
    work().check_cancelled();
    a_.check_unchanged();
    b_.check_unchanged();
  });
  const std::vector<Bytes> shared_pages = ranks_.gather_at_first(records_->shared_pages());
  stages_.run([&] {
    for (const Bytes& pieces : shared_pages) write_pieces(output_, pieces);
    if (!is_first()) output_.flush();
  });
  const std::uint64_t saturated = ranks_.sum(own_.saturated_elements);
  const Publication publication;  // a rank that a signal ends takes the others with it, also the one that renames
  stages_.run([&] {
    if (own_.saturated_elements != 0) {  // of all others, too: the first rank that has some finds the first one
      Report found = own_;
      found.saturated_elements = saturated;
      check_saturation(options_, found, *records_, out_);
    }
    if (!is_first()) return;
    MatrixHeader c = header();
    c.num_blocks = static_cast<std::uint32_t>((end_bytes_ - kHeaderBytes) / output_record_bytes(c.m));
    output_.finish(c, end_bytes_);
  });
  stages_.run([&] {
    if (is_first()) output_.publish();
  });
}

DistributedReport RankProduct::report() {
  did_.first_row = rows_.first;
  did_.end_row = rows_.end;
  did_.pairs = own_.pairs;
  did_.num_blocks = records_->size_bytes() / output_record_bytes(header().m);
  did_.peak_host_bytes = peak_resident_bytes();
  did_.peak_device_bytes = own_.peak_device_bytes;
  did_.num_panels = own_.num_panels;
  did_.saturated_elements = own_.saturated_elements;
  did_.dropped_elements = own_.dropped_elements;
  did_.verified_blocks = own_.verified_blocks;
  did_.proof = own_.proof;
  RankReport rank{
      .numbers = did_, .host = ranks_.host(), .backend = {}, .kernel = own_.plan.kernel, .device = own_.device};
  if (rows_.first != rows_.end) rank.backend = backend_name(own_.plan.backend);
  DistributedReport all;
  for (const Bytes& bytes : ranks_.gather_at_first(encode(rank))) all.ranks.push_back(decode(bytes));
  Report& whole = all.whole;
  whole.plan = own_.plan;
  whole.plan.kernel.clear();
  whole.plan.rows = all_rows_;
  whole.plan.transpose_a = options_.transpose_a;
  whole.plan.transpose_b = options_.transpose_b;
  whole.a = whole.c = header();
  whole.b = b_.source->header();
  add_up(all);
  whole.total_s = seconds_since(start_);
  return all;
}

}  // namespace

DistributedReport multiply(const Communicator& ranks, const FailureOf& failure_of, const fs::path& a, const fs::path& b,
                           const fs::path& out, const Options& options) {
  return RankProduct(ranks, failure_of, options).run(a, b, out);
}

Report multiply_alone(const fs::path& a, const fs::path& b, const fs::path& out, const Options& options) {
  read_header(a);
  read_header(b);
  SharedOutput lock;
  if (!same_file(a, out) && !same_file(b, out)) lock.create(out, {.no_clobber = options.no_clobber});
  Engine engine(options);
  return engine.multiply(a, b, out, options);
}

}  // namespace spmm::mpi
