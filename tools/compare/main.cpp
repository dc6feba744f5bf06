// spmm-compare: do two matrix files hold the same matrix?
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/records/head.hpp"
#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options.hpp"
#include "cli/program.hpp"
#include "report/text.hpp"
#include "tools/common/matrix_file.hpp"
#include "tools/spmm/subcommands.hpp"

namespace {

using namespace spmm;
using tools::MatrixFile;

constexpr const char* kNotes = R"(
Examples:
  spmm-compare expected.bin out.bin
  spmm-compare theirs.bin ours.bin --any-order --ignore-zero-blocks
  spmm-compare a.bin copy_of_a.bin --any-order -q && echo same

Both files must hold the same blocks, in the order of (i, j) as results of spmm are; --any-order is for files of other
programs and for input matrices. An element of a block that one file does not have counts as 0 there and is shown as "no
block". A block that is all zero in one file and missing in the other is a difference too, unless --ignore-zero-blocks is
given. Elements of results at the limit 4294967295 are counted.
Elements are compared by value, so an operand (16-bit elements, in any order of blocks) may be compared with a result
(32-bit elements). If these differ, one line says which is which, and --max-differences lists differences.

Exit codes, as of cmp and diff: 0 the same, 1 different, 2 trouble of any kind (usage, unreadable or malformed file,
interrupted).
)";

cli::OptionTable make_options() {
  using cli::value;
  cli::OptionTable options("spmm-compare", "Compares two block-sparse matrix files element by element.\n");
  options.usage("[options] LEFT RIGHT", "spmm compare");
  options.add_options("hidden")("left", "", value())("right", "", value());
  options.add_options()                                                           //
      ("max-differences", "number of differences to print", value("10"), "N")     //
      ("any-order", "the order of the blocks does not matter")                    //
      ("ignore-zero-blocks", "an all-zero block equals a missing one")            //
      ("type", "elements of the files: auto, u16 or u32", value("auto"), "TYPE")  //
      ("q,quiet", "print nothing, only the exit code");
  cli::add_common_options(options);
  options.parse_positional({"left", "right"});
  return options;
}

/// The records of a file one after the other, in its order or by (i, j).
/// Memory: 4 MB, and behind sort_rest() 16 bytes for each block of a file that is not in order.
class BlockCursor {
 public:
  explicit BlockCursor(const MatrixFile& matrix) : matrix_(matrix) { load(); }

  [[nodiscard]] bool done() const { return next_ == matrix_.file.num_records(); }
  [[nodiscard]] std::span<const std::byte> record() const { return current_; }
  [[nodiscard]] BlockIndex index() const { return read_index(current_.data()); }

  void advance() {
    ++next_;
    load();
  }

  /// To the next block by (i, j). Errors: FormatError if records are out of order and sort_rest() was not called.
  void advance_in_order() {
    const BlockIndex before = index();
    advance();
    if (!done() && order_.empty())
      tools::check_ascends(matrix_.file, next_, before, index(), "compare with --any-order");
  }

  /// Brings the rest of the records, the current one included, into the order of (i, j), if they are not in it.
  /// Errors: FormatError (a block twice).
  void sort_rest() {
    first_ = next_;
    bool is_ordered = true;
    std::vector<Entry> entries;
    for (; !done(); advance()) {
      is_ordered = is_ordered && (entries.empty() || entries.back().at < index());
      entries.push_back({.at = index(), .record = next_});
    }
    next_ = first_;
    if (!is_ordered) {
      tools::check_blocks(matrix_.file, "spmm-compare");
      std::sort(entries.begin(), entries.end(), [](const Entry& x, const Entry& y) { return x.at < y.at; });
      order_ = std::move(entries);
    }
    load();
  }

 private:
  struct Entry {
    BlockIndex at;
    std::uint64_t record;
  };

  /// Makes the record at place next_ the current one; those in the order of the file are read together.
  void load() {
    if (done()) return;
    const std::uint64_t bytes = matrix_.file.record_bytes();
    const std::uint64_t record = order_.empty() ? next_ : order_[next_ - first_].record;
    if (record < buffer_begin_ || record >= buffer_end_) {
      cli::check_cancelled("spmm-compare");
      const std::uint64_t most = order_.empty() ? tools::records_per_read(bytes) : 1;
      buffer_begin_ = record;
      buffer_end_ = std::min(record + most, matrix_.file.num_records());
      buffer_.resize((buffer_end_ - buffer_begin_) * bytes);
      matrix_.file.read(buffer_begin_, buffer_end_ - buffer_begin_, buffer_.data());
    }
    current_ = std::span(buffer_).subspan((record - buffer_begin_) * bytes, bytes);
    tools::check_index(matrix_.file, record, index());
  }

  const MatrixFile& matrix_;
  std::uint64_t next_ = 0;  ///< place of the current block: its record, or first_ + place in order_
  std::uint64_t first_ = 0;
  std::vector<Entry> order_{};  ///< empty: the records are in order
  std::vector<std::byte> buffer_{};
  std::uint64_t buffer_begin_ = 0;  ///< records of buffer_
  std::uint64_t buffer_end_ = 0;
  std::span<const std::byte> current_{};
};

struct CompareOptions {
  bool any_order = false;
  bool ignore_zero_blocks = false;
  std::uint64_t num_shown = 0;  ///< differences that are printed
};

/// One walk over two files of the same n and m.
class Comparison {
 public:
  Comparison(const MatrixFile& left, const MatrixFile& right, const CompareOptions& options)
      : left_(left), right_(right), options_(options), m_(left.file.header().m) {}

  void run() {
    BlockCursor left(left_);
    BlockCursor right(right_);
    // What the files have in common at the start needs no order: neither file has those blocks again.
    while (!left.done() && !right.done() && are_same_bytes(left, right)) {
      saturated_left += saturated_of(left, left_);
      left.advance();
      right.advance();
    }
    saturated_right = saturated_left;
    if (options_.any_order && !(left.done() && right.done())) {
      left.sort_rest();
      right.sort_rest();
    }
    while (!left.done() || !right.done()) {
      const bool takes_left = right.done() || (!left.done() && left.index() <= right.index());
      const bool takes_right = left.done() || (!right.done() && right.index() <= left.index());
      take(takes_left ? &left : nullptr, takes_right ? &right : nullptr);
      if (takes_left) left.advance_in_order();
      if (takes_right) right.advance_in_order();
    }
    left_.file.check_unchanged();
    right_.file.check_unchanged();
  }

  [[nodiscard]] bool same() const { return blocks + only_left + only_right == 0; }

  std::uint64_t elements = 0;    ///< that differ, a missing block taken as zeros
  std::uint64_t blocks = 0;      ///< of both files that differ in some element
  std::uint64_t only_left = 0;   ///< blocks that the right file does not have
  std::uint64_t only_right = 0;  ///< blocks that the left file does not have
  std::uint64_t only_zeros = 0;  ///< of those, all zero
  std::uint64_t saturated_left = 0;
  std::uint64_t saturated_right = 0;

 private:
  [[nodiscard]] bool are_same_bytes(const BlockCursor& left, const BlockCursor& right) const {
    return left_.type == right_.type &&
           std::memcmp(left.record().data(), right.record().data(), left.record().size()) == 0;
  }

  static std::uint64_t saturated_of(const BlockCursor& cursor, const MatrixFile& matrix) {
    return matrix.type == ElementType::u32 ? count_saturated(cursor.record()) : 0;
  }

  /// A block of both files, or of one.
  void take(const BlockCursor* left, const BlockCursor* right) {
    if (left != nullptr) saturated_left += saturated_of(*left, left_);
    if (right != nullptr) saturated_right += saturated_of(*right, right_);
    if (left != nullptr && right != nullptr && are_same_bytes(*left, *right)) return;
    const BlockIndex at = left != nullptr ? left->index() : right->index();
    const auto value_of = [](const BlockCursor* cursor, ElementType type, std::uint64_t e) {
      return cursor == nullptr ? 0 : tools::element_at(cursor->record().data(), type, e);
    };
    std::uint64_t found = 0;
    for (std::uint64_t e = 0; e < m_ * m_; ++e) {
      const std::uint32_t x = value_of(left, left_.type, e);
      const std::uint32_t y = value_of(right, right_.type, e);
      if (x == y) continue;
      ++found;
      if (options_.num_shown == 0) continue;
      --options_.num_shown;
      std::cout << text("row ", at.i * m_ + e / m_, ", col ", at.j * m_ + e % m_, ": left ",
                        left == nullptr ? "no block" : text(x), ", right ", right == nullptr ? "no block" : text(y),
                        "\n");
    }
    elements += found;
    if (left != nullptr && right != nullptr) {
      blocks += found > 0 ? 1 : 0;
    } else if (found > 0 || !options_.ignore_zero_blocks) {
      (left != nullptr ? only_left : only_right) += 1;
      only_zeros += found == 0 ? 1 : 0;
    }
  }

  const MatrixFile& left_;
  const MatrixFile& right_;
  CompareOptions options_;
  std::uint64_t m_;
};

/// "; 3 elements at the limit 4294967295 in left.bin"; "" if there is none.
std::string saturation(std::uint64_t count, const std::string& name) {
  return count == 0 ? "" : text("; ", cli::saturation_text(count), " in ", name);
}

int run(const cli::ParsedOptions& parsed) {
  const std::string left_name = cli::required_positional(parsed, "left", "left file");
  const std::string right_name = cli::required_positional(parsed, "right", "right file");
  const auto type = tools::type_option(parsed);
  const bool quiet = cli::option_flag(parsed, "quiet");
  const std::uint64_t most_shown = *cli::option_count(parsed, "max-differences");
  const MatrixFile left = tools::open_matrix(left_name, type, ElementType::u32);
  const MatrixFile right = tools::open_matrix(right_name, type, ElementType::u32);
  const MatrixHeader& a = left.file.header();
  const MatrixHeader& b = right.file.header();
  if (a.n != b.n || a.m != b.m) {
    if (!quiet) {
      std::cout << (a.n != b.n ? text("n differs: ", a.n, " and ", b.n) : text("m differs: ", a.m, " and ", b.m))
                << "\n";
    }
    return cli::kNegative;
  }
  // One by one, the differences of an operand and a result would be all elements.
  const bool of_one_kind = left.type == right.type;
  const bool shows = !quiet && (of_one_kind || parsed.count("max-differences") > 0);
  Comparison found(left, right,
                   {.any_order = cli::option_flag(parsed, "any-order") || !of_one_kind,
                    .ignore_zero_blocks = cli::option_flag(parsed, "ignore-zero-blocks"),
                    .num_shown = shows ? most_shown : 0});
  found.run();
  if (quiet) return found.same() ? cli::kOk : cli::kNegative;
  std::string line;
  if (found.same()) {
    const std::uint64_t saturated = std::max(found.saturated_left, found.saturated_right);
    line =
        text("same: ", left.file.num_records(), " blocks", saturated > 0 ? ", " + cli::saturation_text(saturated) : "");
  } else {
    if (!of_one_kind) {
      const auto kind = [](const MatrixFile& matrix) {
        return printable(matrix.file.name()) + (matrix.type == ElementType::u16 ? " is an operand (elements of 16 bits)"
                                                                                : " is a result (elements of 32 bits)");
      };
      std::cout << kind(left) << ", " << kind(right) << "\n";
    }
    line = text("elements that differ: ", found.elements, "; blocks that differ: ", found.blocks, ", only in ",
                left_name, ": ", found.only_left, ", only in ", right_name, ": ", found.only_right,
                found.only_zeros > 0 ? text(" (all zero: ", found.only_zeros, ")") : "",
                saturation(found.saturated_left, left_name), saturation(found.saturated_right, right_name));
  }
  std::cout << printable(line) << "\n";
  return found.same() ? cli::kOk : cli::kNegative;
}

}  // namespace

int spmm::tools::compare_main(int argc, char** argv) {
  const int code =
      cli::run_program({.name = "spmm-compare", .options = make_options, .notes = kNotes}, argc, argv, run);
  return code > cli::kNegative ? cli::kUsage : code;
}
