// Results that are wrong in one way each, for proofs.
#include <array>
#include <atomic>
#include <cstddef>

#include "base/run/run.hpp"
#include "spmm/spmm.hpp"
#include "support/files.hpp"
#include "support/matrices.hpp"
#include "support/memory_stream.hpp"
#include "support/stress_case.hpp"
#include "tools/verify/verify_files.hpp"

namespace spmm::test {
namespace {

constexpr std::uint32_t kLimit = 0xFFFF'FFFFu;

/// A result and what is wrong with its file.
struct Forged {
  ProductMatrix c;
  std::int64_t more_blocks = 0;  ///< of the header than there are records
  std::int64_t more_bytes = 0;   ///< at the end of the file; less if negative

  [[nodiscard]] std::size_t elements() const { return std::size_t{c.m} * c.m; }
  [[nodiscard]] std::uint32_t side() const { return c.n / c.m; }
  [[nodiscard]] std::uint32_t* block(std::size_t x) { return c.values.data() + x * elements(); }
  void erase(std::size_t x) {
    const auto first = c.values.begin() + static_cast<std::ptrdiff_t>(x * elements());
    c.values.erase(first, first + static_cast<std::ptrdiff_t>(elements()));
    c.index.erase(c.index.begin() + static_cast<std::ptrdiff_t>(x));
  }
  void insert(std::size_t x, BlockIndex at, std::uint32_t value) {
    c.values.insert(c.values.begin() + static_cast<std::ptrdiff_t>(x * elements()), elements(), value);
    c.index.insert(c.index.begin() + static_cast<std::ptrdiff_t>(x), at);
  }
  /// Moves a block to where its index belongs, or drops it if there is one.
  void move(std::size_t x, BlockIndex at) {
    const std::vector<std::uint32_t> values(block(x), block(x) + elements());
    erase(x);
    add(at, 0);
    const auto place = std::lower_bound(c.index.begin(), c.index.end(), at) - c.index.begin();
    std::copy(values.begin(), values.end(), block(static_cast<std::size_t>(place)));
  }
  void add(BlockIndex at, std::uint32_t value) {
    const auto place = std::lower_bound(c.index.begin(), c.index.end(), at);
    if (place == c.index.end() || *place != at) insert(static_cast<std::size_t>(place - c.index.begin()), at, value);
  }

  [[nodiscard]] std::string bytes() const {
    std::string file = file_of(c);
    const auto num_blocks = static_cast<std::uint32_t>(c.header().num_blocks + more_blocks);
    file.replace(8, sizeof num_blocks, reinterpret_cast<const char*>(&num_blocks), sizeof num_blocks);
    file.resize(
        static_cast<std::size_t>(std::max<std::int64_t>(0, static_cast<std::int64_t>(file.size()) + more_bytes)));
    return file;
  }
};

/// A kind of forgery, applied to a result with at least one block. A draw that changes nothing is skipped.
struct Forgery {
  const char* name;
  void (*apply)(Forged& f, Random& random);
};

std::size_t any_block(const Forged& f, Random& random) {
  return random.below(f.c.index.size());
}

std::uint32_t& any_element(Forged& f, Random& random) {
  return f.c.values[random.below(f.c.values.size())];
}

/// An element at the limit, or one that is not; any one if there is none.
std::uint32_t& element_where(Forged& f, Random& random, bool is_saturated) {
  const std::size_t first = random.below(f.c.values.size());
  for (std::size_t e = 0; e < f.c.values.size(); ++e) {
    std::uint32_t& value = f.c.values[(first + e) % f.c.values.size()];
    if ((value == kLimit) == is_saturated) return value;
  }
  return f.c.values[first];
}

BlockIndex any_place(const Forged& f, Random& random) {
  return {.i = static_cast<std::uint32_t>(random.below(f.side())),
          .j = static_cast<std::uint32_t>(random.below(f.side()))};
}

/// Adds 1 to an element and takes 1 from the one that is `step` elements behind it in its block.
void compensate(Forged& f, Random& random, std::size_t step) {
  std::uint32_t* const block = f.block(any_block(f, random));
  const std::size_t at = random.below(f.elements());
  if (step == 0 || step >= f.elements() || block[at] == kLimit) return;
  block[at] += 1;
  block[(at + step) % f.elements()] -= 1;
}

void swap_elements(Forged& f, Random& random, std::size_t step, bool all) {
  std::uint32_t* const block = f.block(any_block(f, random));
  const std::size_t m = f.c.m;
  for (std::size_t line = 0; line < (all ? m : 1); ++line) {
    const std::size_t at = all ? line * (step == 1 ? m : 1) : random.below(f.elements());
    std::swap(block[at], block[(at + step) % f.elements()]);
  }
}

constexpr std::array<Forgery, 37> kForgeries = {{
    {"one bit flipped", [](Forged& f, Random& r) { any_element(f, r) ^= 1u << r.below(32); }},
    {"low byte", [](Forged& f, Random& r) { any_element(f, r) ^= static_cast<std::uint32_t>(1 + r.below(255)); }},
    {"high byte", [](Forged& f, Random& r) { any_element(f, r) ^= static_cast<std::uint32_t>(1 + r.below(255)) << 24; }},
    {"element + 1", [](Forged& f, Random& r) { element_where(f, r, false) += 1; }},
    {"element - 1", [](Forged& f, Random& r) { element_where(f, r, false) -= 1; }},
    {"element of 0 is 1", [](Forged& f, Random& r) { std::uint32_t& e = any_element(f, r); e = e == 0 ? 1 : e; }},
    {"element + 65535", [](Forged& f, Random& r) { element_where(f, r, false) += 65535; }},
    {"saturated - 1", [](Forged& f, Random& r) { std::uint32_t& e = element_where(f, r, true); e -= e == kLimit; }},
    {"saturated wraps", [](Forged& f, Random& r) {
       std::uint32_t& e = element_where(f, r, true);
       e = e == kLimit ? static_cast<std::uint32_t>(r.below(kLimit)) : e;
     }},
    {"unsaturated at the limit", [](Forged& f, Random& r) { element_where(f, r, false) = kLimit; }},
    {"block at the limit", [](Forged& f, Random& r) { std::fill_n(f.block(any_block(f, r)), f.elements(), kLimit); }},
    {"errors that cancel in a row", [](Forged& f, Random& r) { compensate(f, r, 1); }},
    {"errors that cancel in a column", [](Forged& f, Random& r) { compensate(f, r, f.c.m); }},
    {"errors that cancel in a block", [](Forged& f, Random& r) { compensate(f, r, r.below(f.elements())); }},
    {"neighbours swapped", [](Forged& f, Random& r) { swap_elements(f, r, 1, false); }},
    {"two columns of a block swapped", [](Forged& f, Random& r) { if (f.c.m > 1) swap_elements(f, r, 1, true); }},
    {"two rows of a block swapped", [](Forged& f, Random& r) { if (f.c.m > 1) swap_elements(f, r, f.c.m, true); }},
    {"block transposed", [](Forged& f, Random& r) {
       std::uint32_t* const block = f.block(any_block(f, r));
       for (std::uint32_t i = 0; i < f.c.m; ++i) {
         for (std::uint32_t j = 0; j < i; ++j) std::swap(block[i * f.c.m + j], block[j * f.c.m + i]);
       }
     }},
    {"result transposed", [](Forged& f, Random&) { f.c = transposed_product(f.c); }},
    {"elements of two blocks swapped", [](Forged& f, Random& r) {
       const std::size_t x = any_block(f, r), y = any_block(f, r);
       if (x != y) std::swap_ranges(f.block(x), f.block(x) + f.elements(), f.block(y));
     }},
    {"order of two blocks", [](Forged& f, Random& r) {
       const std::size_t x = any_block(f, r), y = any_block(f, r);
       if (x == y) return;
       std::swap_ranges(f.block(x), f.block(x) + f.elements(), f.block(y));
       std::swap(f.c.index[x], f.c.index[y]);
     }},
    {"block missing", [](Forged& f, Random& r) { f.erase(any_block(f, r)); }},
    {"block row missing", [](Forged& f, Random& r) {
       const std::uint32_t row = r.of(f.c.index).i;
       for (std::size_t x = f.c.index.size(); x-- > 0;) {
         if (f.c.index[x].i == row) f.erase(x);
       }
     }},
    {"element row of zeros", [](Forged& f, Random& r) {
       const std::uint32_t row = r.of(f.c.index).i;
       const std::size_t line = r.below(f.c.m) * f.c.m;
       for (std::size_t x = 0; x < f.c.index.size(); ++x) {
         if (f.c.index[x].i == row) std::fill_n(f.block(x) + line, f.c.m, 0);
       }
     }},
    {"block of zeros", [](Forged& f, Random& r) { std::fill_n(f.block(any_block(f, r)), f.elements(), 0); }},
    {"zero block added", [](Forged& f, Random& r) { f.add(any_place(f, r), 0); }},
    {"block of ones added", [](Forged& f, Random& r) { f.add(any_place(f, r), 1); }},
    {"saturated block added", [](Forged& f, Random& r) { f.add(any_place(f, r), kLimit); }},
    {"block twice", [](Forged& f, Random& r) {
       const std::size_t x = any_block(f, r);
       const std::vector<std::uint32_t> values(f.block(x), f.block(x) + f.elements());
       f.insert(x, f.c.index[x], 0);
       std::copy(values.begin(), values.end(), f.block(x));
     }},
    {"block in another column", [](Forged& f, Random& r) {
       const std::size_t x = any_block(f, r);
       f.move(x, {.i = f.c.index[x].i, .j = any_place(f, r).j});
     }},
    {"block in another row", [](Forged& f, Random& r) {
       const std::size_t x = any_block(f, r);
       f.move(x, {.i = any_place(f, r).i, .j = f.c.index[x].j});
     }},
    {"block outside", [](Forged& f, Random&) { f.c.index.back().i = f.side(); }},
    {"another n", [](Forged& f, Random&) { f.c.n += f.c.n > kLimit - f.c.m ? -f.c.m : f.c.m; }},
    {"another m", [](Forged& f, Random&) { f.c.m = f.c.m == 1 ? 2 : f.c.m - 1; }},
    {"another number of blocks", [](Forged& f, Random& r) { f.more_blocks = r.one_in(2) ? 1 : -1; }},
    {"cut off", [](Forged& f, Random& r) { f.more_bytes = -static_cast<std::int64_t>(r.up_to(8 * f.elements())); }},
    {"bytes at the end", [](Forged& f, Random& r) { f.more_bytes = static_cast<std::int64_t>(r.up_to(8 * f.elements())); }},
}};

/// Whether spmm-verify takes the file for the product. Errors: what it throws, but for files that break the format.
bool is_proven(const std::string& a, const std::string& b, const std::string& c, const ProductOptions& product,
               std::uint64_t key, std::uint64_t limit, unsigned num_threads) {
  StageClock clock;
  const Run run{.clock = clock, .on_progress = kNoProgress, .cancel = nullptr, .num_threads = num_threads};
  tools::VerifyFilesOptions options;
  options.product.rows = product.rows;
  options.product.selection = product.selection;
  options.key = key;
  options.memory_limit_bytes = limit;
  try {
    return tools::verify_files(a, b, c, options, run).num_wrong == 0;
  } catch (const FormatError&) {
    return false;
  } catch (const ShapeError&) {
    return false;
  }
}

/// A matrix that has another element when a record is read for the n-th time, and only then.
class FlickeringSource : public MemorySource {
 public:
  FlickeringSource(const BlockMatrix& usual, const BlockMatrix& other, std::uint64_t record, std::uint64_t nth)
      : MemorySource(usual), other_(other), record_(record), left_(nth) {}
  void read(std::uint64_t first, std::uint64_t count, std::byte* dst) const override {
    MemorySource::read(first, count, dst);
    if (record_ < first || record_ >= first + count || --left_ != 0) return;
    other_.read(record_, 1, dst + (record_ - first) * input_record_bytes(header().m));
  }

 private:
  MemorySource other_;
  std::uint64_t record_;
  mutable std::atomic<std::uint64_t> left_;
};

/// --verify full of a product whose left operand is another one than the proof's: only a right result may pass.
std::string problem_of_engine(const BlockMatrix& a, const BlockMatrix& b, const StressCase& c, Random& random,
                              std::uint64_t& num_forged) {
  if (a.values.empty()) return "";
  BlockMatrix other = a;
  const std::size_t element = random.below(other.values.size());
  other.values[element] ^= 1;
  Options options;
  options.backend = c.options.backend;
  options.kernel = c.options.kernel;
  options.num_threads = 2;
  options.rows = c.options.rows;
  options.selection = c.options.selection;
  options.verify_full = true;
  MemorySink sink(a.header());
  try {
    const FlickeringSource source(a, other, element / a.m / a.m, 1 + random.below(3));
    Engine(options).multiply(source, MemorySource(b), sink, options);
    return sink.product() == c.expected ? "" : "the engine proved a product of another A";
  } catch (const VerifyError&) {
    ++num_forged;
  } catch (const std::logic_error&) {  // right where it is computed again
    ++num_forged;
  } catch (const UsageError&) {  // the kernel does not take it
  }
  return "";
}

}  // namespace

std::string problem_of_proofs(const StressCase& c, const std::string& folder, std::uint64_t& num_forged) {
  if (!c.bad_records.empty()) return "";
  Random random(c.seed);
  const BlockMatrix left = c.options.transpose_a ? transposed(c.a) : c.a;
  const BlockMatrix right = c.options.transpose_b ? transposed(c.b) : c.b;
  const std::string a = folder + "/a", b = folder + "/b", result = folder + "/c";
  write_matrix(a, left);
  write_matrix(b, right);
  const Forged whole{.c = c.expected};
  const std::string right_bytes = whole.bytes();
  write_bytes(result, right_bytes);
  const unsigned num_threads = static_cast<unsigned>(1 + random.below(3));
  const std::uint64_t limit = std::max<std::uint64_t>(c.options.memory_limit_bytes, 1u << 24);
  if (!is_proven(a, b, result, c.options, 1 + random.below(1u << 30), limit, num_threads))
    return "the right result is refused";
  for (const Forgery& forgery : kForgeries) {
    Forged forged = whole;
    if (!forged.c.index.empty()) forgery.apply(forged, random);
    const std::string bytes = forged.bytes();
    if (bytes == right_bytes) continue;
    write_bytes(result, bytes);
    ++num_forged;
    if (is_proven(a, b, result, c.options, 1 + random.below(1u << 30), limit, num_threads)) {
      return std::string("proven in spite of: ") + forgery.name;
    }
  }
  return problem_of_engine(left, right, c, random, num_forged);
}

}  // namespace spmm::test
