// The stages of a product that ranks share.
#include "mpi/product.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/memory/machine_memory.hpp"
#include "base/records/saturated_count.hpp"
#include "base/temporary_names.hpp"
#include "base/text.hpp"
#include "base/visible_gpus.hpp"
#include "cuda/backend.hpp"
#include "engine/output_checks.hpp"
#include "engine/product/product.hpp"
#include "engine/product/rows_source.hpp"
#include "io/memory/transposed_source.hpp"
#include "mpi/divide/division.hpp"
#include "mpi/divide/inner_division.hpp"
#include "mpi/divide/partial_rounds.hpp"
#include "mpi/divide/row_steps.hpp"
#include "mpi/exchange/b_rows.hpp"
#include "mpi/exchange/picked_source.hpp"
#include "mpi/exchange/shared_files.hpp"
#include "mpi/output/round_sink.hpp"
#include "mpi/output/shared_file.hpp"
#include "spmm/arrays.hpp"
#include "spmm/engine.hpp"
#include "spmm/error.hpp"

namespace spmm::mpi {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Of C that a rank keeps until its offset is known: small enough to be in the cache still when it is written, large
/// enough that a round, a message to each rank, costs nothing compared with it. README.md has the figures.
constexpr std::uint64_t kRangeBytes = 2u << 20;
constexpr std::uint64_t kRangeBytesPerRank = 16u << 10;
/// To count the pairs a rank has for each block of A that it reads: the index, the rows that it is in and meets, and
/// what is known of them, on its way and where it arrives.
constexpr std::uint64_t kCountBytes = 72;
/// Where B does not fit a rank at once: steps are whole rounds.
constexpr std::uint32_t kRoundsForSteps = 256;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The product of this rank, stage by stage; every member is collective.
class RankProduct {
 public:
  RankProduct(const Communicator& ranks, const FailureOf& failure_of, const Options& options)
      : group_{.ranks = ranks, .cancel = options.cancel}, stages_(ranks, failure_of), options_(options) {}

  DistributedReport run(const fs::path& a, const fs::path& b, const fs::path& out) {
    open(a, b, out);
    spread_b();
    divide_c();
    spread_a();
    of_rank_.divide_s = seconds_since(start_);
    multiply_all();
    publish();
    return report();
  }

 private:
  [[nodiscard]] bool is_first() const { return group_.ranks.rank() == 0; }
  [[nodiscard]] const MatrixHeader& header() const { return a_->header(); }
  /// Whether a rank may hold all of B; the same answer on all ranks.
  [[nodiscard]] bool b_fits() const {
    return std::uint64_t{b_->header().num_blocks} * sent_bytes() <= limit_bytes_ / 4;
  }
  /// Of a record of A or B that goes to another rank.
  [[nodiscard]] std::uint64_t sent_bytes() const {
    return files_->are_shared() ? kSentHeadBytes : sent_record_bytes(header().m);
  }
  [[nodiscard]] std::uint64_t record_bytes() const { return output_record_bytes(header().m); }

  void check_same_options() const;
  void open(const fs::path& a, const fs::path& b, const fs::path& out);
  void open_output(const fs::path& a, const fs::path& b, const fs::path& out);
  void pick_rows();
  void name_device();
  void settle_limits();
  void spread_b();
  /// Errors: OutOfMemory if counting does not fit the limit beside B.
  void check_counting() const;
  void divide_c();
  void spread_a();
  void multiply_all();
  void fetch_rows(const RecordStore& a, RecordStore& b, bool is_last);
  /// Fills the rounds before `end_round`, which this rank does alone; the sink tells the others when it fails.
  void fill_sink(std::uint32_t end_round, const std::function<void()>& body);
  void run_step(const RecordStore& a, std::uint32_t end_round);
  /// A part of the inner dimension on each rank, then the sums.
  void multiply_parts();
  std::unique_ptr<Source> source_of(const RecordStore& store, const Source& whole);
  /// Values: kept_bytes = that are taken for results in addition to the product.
  void multiply_here(const RecordStore& a, const RecordStore& b, Sink& to, std::uint64_t kept_bytes);
  void publish();
  DistributedReport report();

  Group group_;
  Stages stages_;
  Options options_;
  Clock::time_point start_ = Clock::now();
  std::unique_ptr<Source> whole_a_;
  RowRange rows_{};  ///< of C
  std::optional<RowsSource> picked_a_;
  const Source* a_ = nullptr;  ///< all of it, or these rows alone
  std::unique_ptr<Source> b_;
  std::unique_ptr<SharedFiles> files_;
  SharedOutput output_;
  std::unique_ptr<RoundSink> rounds_;  ///< from the division on
  std::uint64_t limit_bytes_ = 0;  ///< of this rank: a quarter each for results, rows of B, other records, the product
  std::unique_ptr<StoreLimit> store_limit_;
  std::unique_ptr<BRows> b_rows_;
  std::vector<BlockIndex> a_indices_;  ///< of this rank's share, until A is with its owners
  Division division_;
  std::optional<InnerDivision> inner_;  ///< nothing: by rows
  std::unique_ptr<RecordStore> a_rows_;
  std::unique_ptr<Engine> engine_;
  std::uint64_t engine_limit_bytes_ = 0;
  std::uint64_t num_steps_ = 0;
  RankReport of_rank_;
  Report own_;       ///< of this rank; saturated_elements of all of them once they are published
  std::string out_;  ///< for messages
};

/// Of what decides the result, and of what happens to the output. Ranks may differ in all other options.
void RankProduct::check_same_options() const {
  const auto given = [](bool is_on) { return std::string(is_on ? "given" : "left out"); };
  const RowRange rows = options_.rows;
  const std::pair<const char*, std::string> all[] = {
      {"OUT", out_},
      {"ProductOptions::transpose_a", given(options_.transpose_a)},
      {"ProductOptions::transpose_b", given(options_.transpose_b)},
      {"ProductOptions::rows", rows == RowRange{} ? "all rows" : text(rows.first, ":", rows.end)},
      {"ProductOptions::on_saturation", options_.on_saturation == OnSaturation::error ? "error" : "report"},
      {"ProductOptions::no_clobber", given(options_.no_clobber)},
      {"ProductOptions::durable", given(options_.durable)}};
  std::optional<UsageError> first;
  for (const auto& [name, own] : all) {
    const std::string other = difference(group_.ranks, own);
    if (!other.empty() && !first) first.emplace(name, other, "give all ranks the same");
  }
  stages_.run([&] {
    if (first) throw *first;
  });
}

void RankProduct::open(const fs::path& a, const fs::path& b, const fs::path& out) {
  out_ = out.string();
  check_same_options();
  const unsigned num_cores = group_.ranks.cores_per_rank();  // all ranks ask, also those that were given --threads
  if (options_.num_threads == 0) options_.num_threads = num_cores;
  stages_.run([&] {
    wanted_backend(options_);  // rejects unknown names before any file is opened
    name_device();
    whole_a_ = io::open_operand(a, std::exchange(options_.transpose_a, false));  // all others find them transposed
    b_ = io::open_operand(b, std::exchange(options_.transpose_b, false));
    check_shapes(*whole_a_, *b_);
  });
  files_ = std::make_unique<SharedFiles>(group_.ranks, stages_, *whole_a_, *b_);
  stages_.run([&] { pick_rows(); });
  settle_limits();
  open_output(a, b, out);
}

void RankProduct::open_output(const fs::path& a, const fs::path& b, const fs::path& out) {
  stages_.run([&] {
    if (!is_first()) return;
    check_output_is_no_input(a, out);
    check_output_is_no_input(b, out);
    output_.create(out, {.durable = options_.durable, .no_clobber = options_.no_clobber});
  });
  const Bytes ticket = group_.ranks.broadcast(output_.ticket(), 0);
  stages_.run([&] {
    if (!is_first()) output_.open(ticket);
  });
}

/// Leaves the block rows that were asked for. Each rank reads all of A once to find them.
void RankProduct::pick_rows() {
  a_ = whole_a_.get();
  rows_ = checked_rows(std::exchange(options_.rows, {}), a_->header().blocks_per_side());
  if (rows_.covers(a_->header().blocks_per_side())) return;
  StageClock clock;
  const ProgressFn no_progress;
  const Run run{
      .clock = clock, .on_progress = no_progress, .cancel = options_.cancel, .num_threads = options_.num_threads};
  a_ = &picked_a_.emplace(*whole_a_, rows_, &BlockIndex::i, run);
}

/// The GPU that this rank's engine would start, for messages: before there is an engine, and where it fails to start.
void RankProduct::name_device() {
  std::string why_not;
  if (options_.backend == Backend::cpu || !cuda::may_start(why_not)) return;
  const auto count = static_cast<int>(visible_gpus().size());
  stages_.name_device(text("GPU ", options_.device >= 0 ? options_.device : group_.ranks.local_rank() % count));
}

void RankProduct::settle_limits() {
  group_.ranks.barrier();  // before any rank of this machine takes memory
  const auto local = static_cast<std::uint64_t>(group_.ranks.local_size());
  limit_bytes_ =
      options_.memory_limit_bytes != 0 ? options_.memory_limit_bytes : available_memory_bytes() / 10 * 9 / local;
  limit_bytes_ = group_.ranks.min(limit_bytes_);
  store_limit_ = std::make_unique<StoreLimit>(limit_bytes_ / 2);
}

void RankProduct::spread_b() {
  std::vector<std::uint32_t> samples;
  b_rows_ = std::make_unique<BRows>(group_, *store_limit_, sent_bytes());
  stages_.run([&] { samples = sampled_rows(group_, *b_); });
  stages_.run_together([&] { b_rows_->distribute(*b_, samples); });
  stages_.run([&] {
    b_rows_->sort(*b_, options_.num_threads);
    b_->check_unchanged();
  });
}

void RankProduct::check_counting() const {
  const std::uint64_t bytes = header().num_blocks / static_cast<std::uint64_t>(group_.ranks.size()) * kCountBytes;
  if (bytes <= limit_bytes_ - std::min(limit_bytes_, store_limit_->used())) return;
  throw OutOfMemory("host memory",
                    text("counting the pairs takes ", human_bytes(bytes), " beside ", human_bytes(store_limit_->used()),
                         " of B, and the limit of this rank is ", human_bytes(limit_bytes_)),
                    "raise --memory-limit, or use more ranks or nodes");
}

void RankProduct::divide_c() {
  std::vector<std::uint32_t> samples;
  stages_.run([&] {
    check_counting();
    samples = sampled_rows(group_, *a_);
    a_indices_ = read_indices(group_, *a_);
  });
  stages_.run_together([&] {
    const std::uint32_t side = header().blocks_per_side();
    const std::uint64_t num_ranks = static_cast<std::uint64_t>(group_.ranks.size());
    const std::uint64_t range_bytes = std::min(std::max(kRangeBytes, kRangeBytesPerRank * num_ranks), limit_bytes_ / 4);
    const std::vector<RowWork> rows = count_rows(group_, a_indices_, samples, *b_rows_, side);
    const std::uint64_t num_columns = count_columns(group_, *b_rows_, side);
    division_ = divide(group_, rows, num_columns, range_bytes / record_bytes(), b_fits() ? 1 : kRoundsForSteps);
    inner_ = choose_inner(group_, {.indices = a_indices_,
                                   .rows = rows,
                                   .num_columns = num_columns,
                                   .b_rows = *b_rows_,
                                   .by_rows = division_,
                                   .b = b_->header(),
                                   .stored_bytes = sent_bytes(),
                                   .limit_bytes = limit_bytes_,
                                   .range_bytes = range_bytes / 2,
                                   .num_threads = options_.num_threads});
    if (inner_) division_ = std::move(inner_->sums);
  });
}

void RankProduct::spread_a() {
  a_rows_ = std::make_unique<RecordStore>(sent_bytes(), *store_limit_);
  stages_.run_together([&] {
    const auto owner = [&](BlockIndex at) {
      return static_cast<int>(inner_ ? part_of(inner_->borders, at.j) : division_.rank_of(at.i));
    };
    const auto add = [&](int, std::span<const std::byte> sent) { a_rows_->add(sent); };
    if (files_->are_shared()) {
      send_heads(group_, *a_, a_indices_, owner, add);
    } else {
      send_records(group_, *a_, sent_bytes(), owner, add);
    }
  });
  a_indices_ = {};
  stages_.run([&] { a_->check_unchanged(); });
}

void RankProduct::multiply_all() {
  stages_.run(
      [&] { rounds_ = std::make_unique<RoundSink>(group_.ranks, output_, division_, header().m, limit_bytes_ / 4); });
  if (inner_) {
    multiply_parts();
  } else if (b_fits()) {
    run_step(*a_rows_, division_.num_rounds);
  } else {
    std::unique_ptr<RowSteps> steps;
    stages_.run_together([&] {
      steps = std::make_unique<RowSteps>(group_.ranks, *a_rows_, division_, *b_rows_, header().blocks_per_side(),
                                         *store_limit_);
    });
    for (std::uint32_t step = 0; step < steps->num_steps(); ++step) {
      stages_.run([&] { steps->go_to(step); });
      run_step(steps->records(), steps->end_round(step));
    }
  }
  stages_.run_together([&] { rounds_->send_fragments(); });
}

void RankProduct::fetch_rows(const RecordStore& a, RecordStore& b, bool is_last) {
  ++num_steps_;
  const auto start = Clock::now();
  stages_.run_together([&] { b_rows_->fetch(met_rows(a, header().blocks_per_side()), b); });
  if (is_last) b_rows_->clear();
  of_rank_.fetch_s += seconds_since(start);
  of_rank_.received_bytes += (a.size() + b.size()) * sent_bytes();
}

void RankProduct::fill_sink(std::uint32_t end_round, const std::function<void()>& body) {
  rounds_->open_until(end_round);
  stages_.run([&] {
    try {
      group_.check_cancelled();
      body();
      rounds_->close_open_rounds();
    } catch (const OtherRankFailed&) {  // which says what it is
    } catch (...) {
      rounds_->give_up();
      throw;
    }
  });
}

void RankProduct::run_step(const RecordStore& a, std::uint32_t end_round) {
  RecordStore b(sent_bytes(), *store_limit_);
  fetch_rows(a, b, end_round == division_.num_rounds);
  const auto start = Clock::now();
  const std::uint64_t kept_bytes =
      std::min(limit_bytes_ / 4, RoundSink::kNumRanges * division_.max_c_blocks * record_bytes());
  fill_sink(end_round, [&] {
    if (a.size() != 0) multiply_here(a, b, *rounds_, kept_bytes);
  });
  of_rank_.multiply_s += seconds_since(start);
}

void RankProduct::multiply_parts() {
  const std::uint64_t partial_bytes = inner_->counts.partial_c_blocks * record_bytes();
  PartialRounds partial(group_, division_, header().m, partial_bytes);
  {
    RecordStore b(sent_bytes(), *store_limit_);
    fetch_rows(*a_rows_, b, true);
    const auto start = Clock::now();
    stages_.run([&] {
      group_.check_cancelled();
      if (a_rows_->size() != 0) multiply_here(*a_rows_, b, partial.sink(), partial_bytes);
    });
    of_rank_.multiply_s += seconds_since(start);
  }
  a_rows_->clear();
  engine_.reset();
  const auto start = Clock::now();
  for (std::uint32_t round = 0; round < division_.num_rounds; ++round) {
    stages_.run_together([&] { partial.exchange(round); });
    fill_sink(round + 1, [&] {
      const std::vector<std::byte> sum = partial.sum();
      own_.saturated_elements += count_saturated(sum);
      rounds_->write(0, sum, {});  // copied
    });
  }
  of_rank_.merge_s += seconds_since(start);
}

/// Where ranks read the files themselves, a store has only the numbers of the records.
std::unique_ptr<Source> RankProduct::source_of(const RecordStore& store, const Source& whole) {
  if (files_->are_shared()) return std::make_unique<PickedSource>(whole, store, *store_limit_);
  return std::make_unique<StoreSource>(store, whole);
}

void RankProduct::multiply_here(const RecordStore& a, const RecordStore& b, Sink& to, std::uint64_t kept_bytes) {
  const std::unique_ptr<Source> source_a = source_of(a, *a_);
  const std::unique_ptr<Source> source_b = source_of(b, *b_);
  const std::uint64_t left = limit_bytes_ - std::min(limit_bytes_ - 1, kept_bytes + store_limit_->used());
  if (!engine_ || left < engine_limit_bytes_) {
    options_.memory_limit_bytes = engine_limit_bytes_ = left;
    engine_.reset();
    engine_ = std::make_unique<Engine>(options_);
  }
  ProductOptions of_rank = options_;
  of_rank.on_saturation = OnSaturation::report;  // the ranks decide together
  const Report report = engine_->multiply(*source_a, *source_b, to, of_rank);
  own_.pairs += report.pairs;
  own_.num_panels += report.num_panels;
  if (!inner_) own_.saturated_elements += report.saturated_elements;  // else sums decide
  own_.verified_blocks += report.verified_blocks;
  own_.plan = report.plan;
  of_rank_.backend = backend_name(report.plan.backend);
  of_rank_.kernel = report.plan.kernel;
  of_rank_.device = report.device;
  if (report.plan.backend == Backend::cpu) stages_.name_device("");
  of_rank_.peak_device_bytes = std::max(of_rank_.peak_device_bytes, report.peak_device_bytes);
}

void RankProduct::publish() {
  stages_.run([&] {
    group_.check_cancelled();
    files_->check_unchanged();
    if (!is_first()) output_.flush();
  });
  own_.a = whole_a_->header();
  own_.b = b_->header();
  own_.c = header();
  own_.c_blocks = (rounds_->end() - kHeaderBytes) / record_bytes();
  own_.c.num_blocks = static_cast<std::uint32_t>(own_.c_blocks);
  own_.saturated_elements = group_.ranks.sum(own_.saturated_elements);
  const Publication publication;  // a rank that a signal ends takes the others with it, also the one that renames
  stages_.run([&] {
    check_saturation(options_, own_, *rounds_, out_);
    if (!is_first()) return;
    output_.finish(own_.c, rounds_->end());
    output_.publish();
  });
}

DistributedReport RankProduct::report() {
  of_rank_.host = group_.ranks.host();
  of_rank_.pairs = own_.pairs;
  of_rank_.num_blocks = rounds_->own_bytes() / record_bytes();
  of_rank_.wait_s = rounds_->wait_s();
  of_rank_.write_s = rounds_->write_s();
  of_rank_.peak_host_bytes = peak_resident_bytes();
  DistributedReport all{.whole = own_,
                        .ranks = {},
                        .num_rounds = division_.num_rounds,
                        .num_steps = num_steps_,
                        .splits_inner = inner_.has_value(),
                        .reads_files = files_->are_shared()};
  add_ranks(group_.ranks, of_rank_, own_, all);
  all.whole.pairs = division_.pairs;
  all.whole.plan.rows = rows_;
  all.whole.total_s = seconds_since(start_);
  return all;
}

}  // namespace

DistributedReport multiply(const Communicator& ranks, const FailureOf& failure_of, const fs::path& a, const fs::path& b,
                           const fs::path& out, const Options& options) {
  RankProduct product(ranks, failure_of, options);
  DistributedReport report = product.run(a, b, out);
  report.whole.plan.transpose_a = options.transpose_a;
  report.whole.plan.transpose_b = options.transpose_b;
  return report;
}

}  // namespace spmm::mpi
