// Reads the entries of Matrix Market files.
#include "tools/convert/mtx/reader.hpp"

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "spmm/error.hpp"
#include "tools/convert/mtx/header.hpp"
#include "tools/convert/mtx/text_pieces.hpp"

namespace spmm::tools {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool is_digit(char c) {
  return static_cast<unsigned char>(c - '0') < 10;
}

/// What is wrong with a line, and where.
struct Complaint {
  const char* at;
  std::string problem;
};

/// Numbers one after the other. Errors: Complaint.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  [[nodiscard]] const char* at() const { return at_; }

  void skip_blanks() {
    while (at_ != end_ && is_blank(*at_)) ++at_;
  }
  /// To the start of the next line that holds something; false at the end.
  bool find_line() {
    for (;;) {
      skip_blanks();
      if (at_ == end_) return false;
      if (*at_ == '%') {
        while (at_ != end_ && *at_ != '\n') ++at_;
      } else if (*at_ != '\n') {
        return true;
      } else {
        ++at_;
      }
    }
  }
  [[nodiscard]] bool at_line_end() {
    skip_blanks();
    return at_ == end_ || *at_ == '\n';
  }
  void end_line() {
    if (!at_line_end()) throw Complaint{at_, text("\"", word(), "\" follows, expected the end of the line")};
  }

  /// Errors: not from 1 to `most`.
  std::uint32_t index(const char* what, std::uint64_t most) {
    skip_blanks();
    const char* const begin = at_;
    std::uint64_t value = 0;
    while (at_ != end_ && is_digit(*at_) && at_ - begin < 18) value = value * 10 + static_cast<unsigned>(*at_++ - '0');
    if (at_ == begin || !ends_here()) {
      at_ = begin;
      throw Complaint{begin, text("\"", word(), "\" is not the number of a ", what)};
    }
    if (value == 0 || value > most) {
      throw Complaint{begin, text(what, " ", value, " is out of range, expected 1 to ", most)};
    }
    return static_cast<std::uint32_t>(value - 1);
  }

  double number(bool whole) {
    constexpr int kExactDigits = 15;
    skip_blanks();
    if (at_ != end_ && *at_ == '+' && at_ + 1 != end_ && at_[1] != '-') ++at_;
    const char* const begin = at_;
    std::uint64_t digits = 0;
    while (at_ != end_ && is_digit(*at_) && at_ - begin < kExactDigits) {
      digits = digits * 10 + static_cast<unsigned>(*at_++ - '0');
    }
    if (at_ != begin && ends_here()) return static_cast<double>(digits);
    at_ = begin;
    return longer_number(whole);
  }

 private:
  [[nodiscard]] bool ends_here() const { return at_ == end_ || *at_ == '\n' || is_blank(*at_); }

  [[nodiscard]] std::string word() const {
    constexpr std::ptrdiff_t kShown = 30;
    const char* stop = at_;
    while (stop != end_ && *stop != '\n' && !is_blank(*stop) && stop - at_ < kShown) ++stop;
    return {at_, stop};
  }

  double longer_number(bool whole) {
    const char* const begin = at_;
    if (whole) {
      std::int64_t value = 0;
      const auto [stop, error] = std::from_chars(at_, end_, value);
      at_ = stop;
      if (error == std::errc{} && ends_here()) return static_cast<double>(value);
      if (error != std::errc::result_out_of_range || !ends_here()) {
        at_ = begin;
        throw Complaint{begin, text("\"", word(), "\" is not a whole number, as the field integer says")};
      }
      at_ = begin;
    }
    double value = 0;
    const auto [stop, error] = std::from_chars(at_, end_, value);
    at_ = stop;
    if (error == std::errc{} && ends_here()) return value;
    at_ = begin;
    throw Complaint{begin, text("\"", word(), "\" is not a number of 64 bits")};
  }

  const char* at_;
  const char* end_;
};

class MtxReader : public EntryReader {
 public:
  explicit MtxReader(const std::filesystem::path& path) : name_(path.string()) {
    auto input = open_byte_input(path);
    const std::uint64_t bytes = input->size();
    TextPieces lines(std::move(input));
    header_ = read_mtx_header(lines, bytes, name_);
  }

  [[nodiscard]] MatrixShape shape() const override { return {.rows = header_.rows, .columns = header_.columns}; }
  [[nodiscard]] std::uint32_t first_index() const override { return 1; }
  [[nodiscard]] std::string place_text(std::uint64_t place) override {
    return text("line ", line_number(name_, place));
  }

  void read(EntrySink& sink) override {
    const std::uint64_t most = header_.num_lines * (header_.symmetric ? 2 : 1);
    if (header_.is_array || header_.symmetric) {
      sink.expect_at_most(most, name_);
    } else {
      sink.expect(most, name_);
    }
    TextPieces pieces(open_byte_input(name_));
    std::uint64_t num_lines = 0;
    std::uint64_t row = 0;  // array: of the next element
    std::uint64_t column = 0;
    for (std::string_view piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
      std::string_view lines = piece;
      const std::uint64_t head = header_.data_begin - std::min(header_.data_begin, pieces.offset());
      lines.remove_prefix(std::min<std::uint64_t>(head, lines.size()));
      const auto offset = [&](const char* at) {
        return pieces.offset() + static_cast<std::uint64_t>(at - piece.data());
      };
      try {
        if (header_.is_array) {
          num_lines += read_array(lines, offset, num_lines, row, column, sink);
        } else {
          num_lines += read_coordinates(lines, offset, num_lines, sink);
        }
      } catch (const Complaint& complaint) {
        throw_at_line(name_, line_number(name_, offset(complaint.at)), complaint.problem,
                      "correct the line, or create the file again");
      }
    }
    if (num_lines == header_.num_lines) return;
    throw FormatError(name_, text(num_lines, " elements, ", header_.num_lines, " were announced"),
                      "create or copy the file again: it is cut off, or the line of the sizes is wrong");
  }

 private:
  template <class Offset>
  std::uint64_t read_coordinates(std::string_view lines, const Offset& offset, std::uint64_t before, EntrySink& sink) {
    Scanner scanner(lines);
    std::uint64_t count = 0;
    const bool whole = header_.field == MtxField::integer;
    const bool pattern = header_.field == MtxField::pattern;
    while (scanner.find_line()) {
      const char* const begin = scanner.at();
      if (before + count == header_.num_lines) too_many(begin);
      const std::uint32_t row = scanner.index("row", header_.rows);
      const std::uint32_t column = scanner.index("column", header_.columns);
      const double value = pattern ? 1 : scanner.number(whole);
      scanner.end_line();
      sink.add(row, column, value, offset(begin));
      if (header_.symmetric && row != column) sink.add(column, row, value, offset(begin));
      ++count;
    }
    return count;
  }

  template <class Offset>
  std::uint64_t read_array(std::string_view lines, const Offset& offset, std::uint64_t before, std::uint64_t& row,
                           std::uint64_t& column, EntrySink& sink) {
    Scanner scanner(lines);
    std::uint64_t count = 0;
    const bool whole = header_.field == MtxField::integer;
    while (scanner.find_line()) {
      const char* const begin = scanner.at();
      if (before + count == header_.num_lines) too_many(begin);
      const double value = scanner.number(whole);
      const auto r = static_cast<std::uint32_t>(row);
      const auto c = static_cast<std::uint32_t>(column);
      sink.add(r, c, value, offset(begin));
      if (header_.symmetric && r != c) sink.add(c, r, value, offset(begin));
      ++count;
      if (++row == header_.rows) {
        ++column;
        row = header_.symmetric ? column : 0;
      }
    }
    return count;
  }

  [[noreturn]] void too_many(const char* at) const {
    throw Complaint{at, text("more than the ", header_.num_lines, " elements that were announced")};
  }

  std::string name_;
  MtxHeader header_;
};

}  // namespace

std::unique_ptr<EntryReader> open_mtx(const std::filesystem::path& path) {
  return std::make_unique<MtxReader>(path);
}

}  // namespace spmm::tools
