#include "dist/distributed_product.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "base/memory.hpp"
#include "base/record_errors.hpp"
#include "base/record_head.hpp"
#include "base/text.hpp"
#include "dist/b_rows.hpp"
#include "dist/division.hpp"
#include "dist/page_split.hpp"
#include "dist/range_sinks.hpp"
#include "dist/row_steps.hpp"
#include "engine/product.hpp"
#include "io/paths.hpp"
#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"

namespace spmm::dist {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A piece of the file on its way to rank 0: offset, length, bytes.
void add_piece(Bytes& to, std::uint64_t offset, const Bytes& bytes) {
  if (bytes.empty()) return;
  const std::array<std::uint64_t, 2> head = {offset, bytes.size()};
  const auto* const words = reinterpret_cast<const std::byte*>(head.data());
  to.insert(to.end(), words, words + sizeof head);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void write_pieces(const SharedOutput& output, std::span<const std::byte> pieces) {
  while (!pieces.empty()) {
    std::array<std::uint64_t, 2> head{};
    std::memcpy(head.data(), pieces.data(), sizeof head);
    output.write_at(head[0], pieces.subspan(sizeof head, head[1]));
    pieces = pieces.subspan(sizeof head + head[1]);
  }
}

/// The product of this rank, stage by stage; every member is collective.
class RankProduct {
 public:
  RankProduct(const Communicator& ranks, const FailureOf& failure_of, const Options& options)
      : group_{.ranks = ranks, .cancel = options.cancel}, stages_(ranks, failure_of), options_(options) {}

  DistributedReport run(const fs::path& a, const fs::path& b, const fs::path& out) {
    open(a, b, out);
    settle_limits();
    spread_b();
    divide_c();
    spread_a();
    part_.divide_s = seconds_since(start_);
    for (std::uint32_t round = 0; round < division_.num_rounds; ++round) run_round(round);
    publish();
    return report();
  }

 private:
  [[nodiscard]] bool is_first() const { return group_.ranks.rank() == 0; }
  [[nodiscard]] const MatrixHeader& header() const { return a_->header(); }
  [[nodiscard]] std::uint64_t record_bytes() const { return output_record_bytes(header().m); }

  void open(const fs::path& a, const fs::path& b, const fs::path& out);
  void check_headers() const;
  void settle_limits();
  void spread_b();
  void divide_c();
  void spread_a();
  void run_round(std::uint32_t round);
  void run_step(const RecordStore& a, bool is_last, RangeSink& sink);
  void multiply_here(const RecordStore& a, const RecordStore& b, RangeSink& sink);
  void write_round(const RangeSink& sink, const BufferSink& kept);
  void publish();
  DistributedReport report();

  Group group_;
  Stages stages_;
  Options options_;
  Clock::time_point start_ = Clock::now();
  std::unique_ptr<Source> a_;
  std::unique_ptr<Source> b_;
  SharedOutput output_;
  std::uint64_t limit_bytes_ = 0;  ///< of this rank: a quarter each for results, rows of B, other records, the product
  std::unique_ptr<StoreLimit> store_limit_;
  std::unique_ptr<BRows> b_rows_;
  Division division_;
  std::vector<std::unique_ptr<RecordStore>> a_rounds_;
  std::unique_ptr<Engine> engine_;
  std::uint64_t engine_limit_bytes_ = 0;
  std::uint64_t end_ = kHeaderBytes;  ///< of the file so far
  std::uint64_t num_steps_ = 0;
  RankPart part_;
  Report own_;
};

void RankProduct::open(const fs::path& a, const fs::path& b, const fs::path& out) {
  stages_.run([&] {
    wanted_backend(options_);  // rejects unknown names before any file is opened
    a_ = open_file_source(a);
    b_ = open_file_source(b);
    check_shapes(*a_, *b_);
  });
  check_headers();
  stages_.run([&] {
    if (!is_first()) return;
    for (const fs::path& input : {a, b}) {
      if (!same_file(input, out)) continue;
      throw UsageError(out.string(), text("the output is the same file as the input ", input.string()),
                       "give the output another name");
    }
    output_.create(out, {.durable = options_.durable, .no_clobber = options_.no_clobber});
  });
  const Bytes ticket = group_.ranks.broadcast(output_.ticket(), 0);
  stages_.run([&] {
    if (!is_first()) output_.open(ticket);
  });
}

/// Each rank opens the paths itself: on a node without the shared file system they may be other files.
void RankProduct::check_headers() const {
  std::vector<bool> same;
  for (const Source* const source : {a_.get(), b_.get()}) {
    const MatrixHeader& h = source->header();
    const std::uint64_t shape = std::uint64_t{h.n} << 8 | h.m;  // m is at most 64
    same.push_back(group_.ranks.max(shape) == group_.ranks.min(shape) &&
                   group_.ranks.max(h.num_blocks) == group_.ranks.min(h.num_blocks));
  }
  stages_.run([&] {
    if (same[0] && same[1]) return;
    throw InputError((same[0] ? b_ : a_)->name(), "the ranks see files with different headers",
                     "give paths on a file system that all nodes share");
  });
}

void RankProduct::settle_limits() {
  group_.ranks.barrier();  // before any rank of this machine takes memory
  const auto local = static_cast<std::uint64_t>(group_.ranks.local_size());
  limit_bytes_ =
      options_.memory_limit_bytes != 0 ? options_.memory_limit_bytes : available_memory_bytes() / 10 * 9 / local;
  limit_bytes_ = group_.ranks.min(limit_bytes_);
  if (options_.num_threads == 0) options_.num_threads = group_.ranks.cores_per_rank();
  store_limit_ = std::make_unique<StoreLimit>(limit_bytes_ / 2);
}

void RankProduct::spread_b() {
  std::vector<std::uint32_t> samples;
  b_rows_ = std::make_unique<BRows>(group_, *store_limit_, header().m);
  stages_.run([&] { samples = sampled_rows(group_, *b_); });
  stages_.run_together([&] { b_rows_->distribute(*b_, samples); });
  stages_.run([&] {
    b_rows_->sort(*b_, options_.num_threads);
    b_->check_unchanged();
  });
}

void RankProduct::divide_c() {
  std::vector<BlockIndex> indices;
  std::vector<std::uint32_t> samples;
  stages_.run([&] {
    samples = sampled_rows(group_, *a_);
    indices = read_indices(group_, *a_);
  });
  stages_.run_together([&] {
    const std::uint64_t wanted = limit_bytes_ / 4 / record_bytes();
    division_ = divide(group_, indices, samples, *b_rows_, header().blocks_per_side(), wanted);
  });
}

void RankProduct::spread_a() {
  const auto num_ranks = static_cast<std::uint32_t>(group_.ranks.size());
  for (std::uint32_t round = 0; round < division_.num_rounds; ++round) {
    a_rounds_.push_back(std::make_unique<RecordStore>(header().m, *store_limit_, division_.num_rounds));
  }
  const std::uint64_t record = sent_record_bytes(header().m);
  stages_.run_together([&] {
    send_records(
        group_, *a_, [&](BlockIndex at) { return static_cast<int>(division_.range_of(at.i) % num_ranks); },
        [&](int, std::span<const std::byte> sent) {
          if (division_.num_rounds == 1) return a_rounds_.front()->add(sent);
          for (; !sent.empty(); sent = sent.subspan(record)) {
            const BlockIndex at = read_index(sent.data() + kNumberBytes);
            a_rounds_[division_.range_of(at.i) / num_ranks]->add(sent.first(record));
          }
        });
  });
  stages_.run([&] { a_->check_unchanged(); });
}

void RankProduct::run_round(std::uint32_t round) {
  const RecordStore& a = *a_rounds_[round];
  DirectSink direct(output_, end_);
  BufferSink kept(limit_bytes_ / 4);
  RangeSink& sink = is_first() ? static_cast<RangeSink&>(direct) : kept;
  const bool is_last_round = round + 1 == division_.num_rounds;
  // A quarter of the smallest limit; what is in a file is the same for all ranks.
  const std::uint64_t step_bytes = limit_bytes_ / 4;
  if (std::uint64_t{b_->header().num_blocks} * sent_record_bytes(header().m) <= step_bytes) {
    run_step(a, is_last_round, sink);
  } else {
    std::unique_ptr<RowSteps> steps;
    stages_.run_together([&] { steps = std::make_unique<RowSteps>(a, header(), *b_rows_, step_bytes, *store_limit_); });
    const std::uint64_t num_steps = group_.ranks.max(steps->num_steps());
    for (std::uint64_t step = 0; step < num_steps; ++step) {
      stages_.run([&] { steps->go_to(step); });
      run_step(steps->records(), is_last_round && step + 1 == num_steps, sink);
    }
  }
  a_rounds_[round]->clear();
  write_round(sink, kept);
}

void RankProduct::run_step(const RecordStore& a, bool is_last, RangeSink& sink) {
  ++num_steps_;
  const auto start = Clock::now();
  RecordStore b(header().m, *store_limit_);
  stages_.run_together([&] { b_rows_->fetch(met_rows(a, header().blocks_per_side()), b); });
  if (is_last) b_rows_->clear();
  part_.fetch_s += seconds_since(start);
  part_.received_bytes += (a.size() + b.size()) * sent_record_bytes(header().m);
  stages_.run([&] {
    const auto product_start = Clock::now();
    group_.check_cancelled();
    if (a.size() != 0) multiply_here(a, b, sink);
    part_.multiply_s += seconds_since(product_start);
  });
}

void RankProduct::multiply_here(const RecordStore& a, const RecordStore& b, RangeSink& sink) {
  const std::uint64_t kept = is_first() ? 0 : std::min(limit_bytes_ / 4, division_.max_c_blocks * record_bytes());
  const std::uint64_t left = limit_bytes_ - std::min(limit_bytes_ - 1, kept + store_limit_->used());
  if (!engine_ || left < engine_limit_bytes_) {
    options_.memory_limit_bytes = engine_limit_bytes_ = left;
    engine_.reset();
    engine_ = std::make_unique<Engine>(options_);
  }
  const StoreSource source_a(a, a_->header(), a_->name());
  const StoreSource source_b(b, b_->header(), b_->name());
  const Report report = engine_->multiply(source_a, source_b, sink, options_);
  own_.pairs += report.pairs;
  own_.num_panels += report.num_panels;
  own_.verified_blocks += report.verified_blocks;
  own_.plan = report.plan;
  part_.backend = backend_name(report.plan.backend);
  part_.kernel = report.plan.kernel;
  part_.device = report.device;
  part_.peak_device_bytes = std::max(part_.peak_device_bytes, report.peak_device_bytes);
}

/// Every rank learns where its range begins, and writes the whole pages of it; what shares a page with another range
/// goes to rank 0, which has written its own range already.
void RankProduct::write_round(const RangeSink& sink, const BufferSink& kept) {
  const auto start = Clock::now();
  std::uint64_t begin = end_;
  const std::vector<std::uint64_t> sizes = group_.ranks.gather(sink.bytes());
  for (int rank = 0; rank < group_.ranks.size(); ++rank) {
    if (rank < group_.ranks.rank()) begin += sizes[static_cast<std::size_t>(rank)];
    end_ += sizes[static_cast<std::size_t>(rank)];
  }
  part_.num_blocks += sink.bytes() / record_bytes();
  stages_.run([&] { check_num_output_blocks((end_ - kHeaderBytes) / record_bytes()); });
  const PageSplit split = split_pages(begin, begin + kept.bytes());
  stages_.run_together([&] {
    group_.ranks.exchange(
        [&](std::vector<Bytes>& to) {
          kept.write(output_, split.head_bytes(), kept.bytes() - split.tail_bytes(), split.whole_begin,
                     options_.num_threads);
          add_piece(to.front(), split.begin, kept.copy(0, split.head_bytes()));
          add_piece(to.front(), split.whole_end, kept.copy(kept.bytes() - split.tail_bytes(), kept.bytes()));
          return false;
        },
        [&](int, std::span<const std::byte> pieces) { write_pieces(output_, pieces); });
  });
  part_.write_s += seconds_since(start);
}

void RankProduct::publish() {
  MatrixHeader c = header();
  c.num_blocks = static_cast<std::uint32_t>((end_ - kHeaderBytes) / record_bytes());
  own_.a = a_->header();
  own_.b = b_->header();
  own_.c = c;
  stages_.run([&] {
    group_.check_cancelled();
    if (!is_first()) output_.flush();
  });
  stages_.run([&] {
    if (!is_first()) return;
    output_.finish(c, end_);
    output_.publish();
  });
}

DistributedReport RankProduct::report() {
  part_.host = group_.ranks.host();
  part_.pairs = own_.pairs;
  part_.peak_host_bytes = peak_resident_bytes();
  DistributedReport all{.whole = own_, .ranks = {}, .num_rounds = division_.num_rounds, .num_steps = num_steps_};
  for (const Bytes& bytes : group_.ranks.gather(encode(part_))) {
    all.ranks.push_back(decode(bytes));
    all.whole.peak_host_bytes = std::max(all.whole.peak_host_bytes, all.ranks.back().peak_host_bytes);
    all.whole.peak_device_bytes = std::max(all.whole.peak_device_bytes, all.ranks.back().peak_device_bytes);
  }
  all.whole.pairs = division_.pairs;
  all.whole.num_panels = group_.ranks.sum(own_.num_panels);
  all.whole.verified_blocks = group_.ranks.sum(own_.verified_blocks);
  all.whole.device = part_.device;
  all.whole.total_s = seconds_since(start_);
  return all;
}

}  // namespace

DistributedReport multiply(const Communicator& ranks, const FailureOf& failure_of, const fs::path& a, const fs::path& b,
                           const fs::path& out, const Options& options) {
  return RankProduct(ranks, failure_of, options).run(a, b, out);
}

}  // namespace spmm::dist
