// The public functions: products of files, matrices and the caller's streams, plans, names and versions.
#include "spmm/multiply.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/text.hpp"
#include "cuda/backend.hpp"
#include "engine/impl.hpp"
#include "io/factor_source.hpp"
#include "io/files/file_sink.hpp"
#include "io/files/scratch_file.hpp"
#include "io/formats/format.hpp"
#include "plan/registry.hpp"
#include "spmm/arrays.hpp"
#include "spmm/engine.hpp"
#include "spmm/io.hpp"

namespace spmm {

namespace fs = std::filesystem;

namespace {

constexpr const char* kResult = "the result";

/// Errors: UsageError if the options name a pattern.
void refuse_pattern(const ProductOptions& options, const char* why, const char* hint) {
  if (!options.pattern.empty()) throw UsageError("ProductOptions::pattern", why, hint);
}

/// One more product from files, as long as it exists.
class Running {
 public:
  explicit Running(std::atomic<unsigned>& count) : count_(count) { ++count_; }
  ~Running() { --count_; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::atomic<unsigned>& count_;
};

/// How a file is written. Pages of the output count as resident while they are mapped: not where a tight limit was
/// given. Outputs that are written at the same time share the cores.
io::FileSinkTuning tuning_of(const EngineOptions& options, unsigned num_running, StageClock& clock) {
  // A margin, not measured: 16 writers that each fill a range of 64 MB (MappedFile::kRangeBytes) hold 1 GB of it.
  constexpr std::uint64_t kTightBytes = std::uint64_t{4} << 30;
  const bool is_tight = options.memory_limit_bytes != 0 && options.memory_limit_bytes < kTightBytes;
  io::FileSinkTuning tuning = is_tight ? io::FileSinkTuning{} : io::fastest_tuning(usable_cores(), num_running);
  tuning.clock = &clock;
  return tuning;
}

/// Bytes of these block rows of the result, for evenly spread blocks.
std::uint64_t expected_result_bytes(const MatrixHeader& a, const MatrixHeader& b, const ProductOptions& options) {
  const double blocks =
      plan::expected_of_selection(plan::expected_of_rows(a, b, options.rows), options.selection, options.rows)
          .num_c_blocks;
  return kHeaderBytes + static_cast<std::uint64_t>(blocks * static_cast<double>(output_record_bytes(a.m)));
}

}  // namespace

Engine::Engine(const EngineOptions& options) : impl_(std::make_unique<Impl>(options)) {}

Engine::~Engine() {
  if (impl_->is_of_this_process()) return;
  static_cast<void>(impl_.release());  // its threads are the parent's: nothing can be waited for
}

Engine::Impl& Engine::own() const {
  if (impl_->is_of_this_process()) return *impl_;
  throw UsageError("Engine", "belongs to the parent of this process", "make an engine after fork()");
}

Report Engine::multiply(const fs::path& a, const fs::path& b, const fs::path& out, const ProductOptions& options) {
  ProductRecord record(options);
  wanted_backend(options);  // rejects unknown names before any file is opened
  const Running running(own().num_running());
  std::unique_ptr<Source> source_a;
  std::unique_ptr<Source> source_b;
  std::unique_ptr<Source> pattern;
  std::unique_ptr<Sink> file;
  {
    const auto timing = record.clock.scope(Stage::open);
    source_a = open_file_source(a);
    source_b = open_file_source(b);
    check_shapes(*source_a, *source_b);
    check_output_is_no_input(a, out);
    check_output_is_no_input(b, out);
    if (!options.pattern.empty()) {
      pattern = open_file_source(options.pattern);
      check_output_is_no_input(options.pattern, out);
    }
    record.scratch_folders = io::scratch_folders(out);
    std::error_code ignored;
    record.discards_result = fs::is_character_file(out, ignored);
    const FileSinkOptions how{.durable = options.durable, .no_clobber = options.no_clobber};
    io::FileSinkTuning writing = tuning_of(own().options(), own().num_running(), record.clock);
    writing.result_bytes = expected_result_bytes(source_a->header(), source_b->header(), options);
    file = io::open_tuned_file_sink(out, source_a->header().m, how, writing);
  }
  if (pattern != nullptr) {
    own().multiply_given({*source_a, *source_b}, *pattern, *file, out.string(), options, record);
  } else {
    own().multiply(*source_a, *source_b, &*file, out.string(), options, record);
  }
  record.close();
  return record.report;
}

ProductMatrix Engine::multiply(const BlockMatrix& a, const BlockMatrix& b, const ProductOptions& options,
                               Report* report) {
  ProductMatrix product;
  const auto sink = make_memory_sink(product);
  Report finished = multiply(*make_memory_source(a, "matrix A"), *make_memory_source(b, "matrix B"), *sink, options);
  if (report != nullptr) *report = std::move(finished);
  return product;
}

Report Engine::multiply(const Source& a, const Source& b, Sink& sink, const ProductOptions& options) {
  refuse_pattern(options, "is for products of files", "pass the blocks of C as arrays: Accumulation::c");
  ProductRecord record(options);
  record.scratch_folders = io::scratch_folders();
  io::check_memory_shape(a.header(), a.name());
  io::check_memory_shape(b.header(), b.name());
  own().multiply(a, b, &sink, kResult, options, record);
  record.close();
  return record.report;
}

Plan Engine::plan(const fs::path& a, const fs::path& b, const ProductOptions& options) {
  refuse_pattern(options, "has no plan: the product of given blocks is computed in memory",
                 "multiply, or leave it out");
  const auto source_a = open_file_source(a);
  const auto source_b = open_file_source(b);
  check_shapes(*source_a, *source_b);
  ProductRecord record(options);
  record.scratch_folders = io::scratch_folders();
  own().multiply(*source_a, *source_b, nullptr, kResult, options, record);
  return record.report.plan;
}

void Engine::trim() {
  for (const auto& device : own().devices().started()) cuda::trim(*device);
}

const std::vector<KernelInfo>& kernel_names() {
  static const std::vector<KernelInfo> kNames = [] {
    std::vector<KernelInfo> names;
    for (const plan::KernelRow& row : plan::registry()) {
      names.push_back({std::string(row.name), row.backend, std::string(row.summary)});
    }
    return names;
  }();
  return kNames;
}

std::string version_string() {
  const std::string cuda = cuda::build_info();
  return text("spmm ", SPMM_VERSION, " (git ", SPMM_GIT_REVISION, "), ",
              cuda.empty() ? "built without CUDA, " : "CUDA " + cuda + ", ",
              cuda.empty() ? "backends: cpu" : "backends: cuda cpu");
}

bool has_backend(Backend backend) {
  return backend != Backend::cuda || !cuda::build_info().empty();
}

bool has_cuda_device() {
  std::string why_not;
  return cuda::may_start(why_not);
}

Plan plan_multiply(const fs::path& a, const fs::path& b, const Options& options) {
  return Engine(options).plan(a, b, options);
}

Report multiply(const fs::path& a, const fs::path& b, const fs::path& out, const Options& options) {
  return Engine(options).multiply(a, b, out, options);
}

ProductMatrix multiply(const BlockMatrix& a, const BlockMatrix& b, const Options& options, Report* report) {
  return Engine(options).multiply(a, b, options, report);
}

BsrMatrix<std::uint32_t> multiply_saturating(Engine& engine, const BsrView<std::uint16_t>& a,
                                             const BsrView<std::uint16_t>& b, const ProductOptions& options,
                                             Report* report) {
  BsrView<std::uint16_t> factor_a = a;
  BsrView<std::uint16_t> factor_b = b;
  if (options.transpose_a) std::swap(factor_a.rows, factor_a.cols);
  if (options.transpose_b) std::swap(factor_b.rows, factor_b.cols);
  const std::uint32_t n = padded_side(factor_a, factor_b);
  checked_rows(options.rows, static_cast<std::uint32_t>(factor_a.rows / a.m));  // not padded
  const auto source_a = make_bsr_source(a, n, "matrix A");
  const auto source_b = make_bsr_source(b, n, "matrix B");
  BsrMatrix<std::uint32_t> product;
  const auto sink = make_bsr_sink(product, factor_a.rows, factor_b.cols);
  Report finished = engine.multiply(*source_a, *source_b, *sink, options);
  if (report != nullptr) *report = std::move(finished);
  return product;
}

}  // namespace spmm
