// Lines of journals: any bytes, the same with the mark at the end, and records written and read back.
#include "fuzz/fuzz_support.hpp"
#include "tools/batch/journal/journal.hpp"

namespace spmm::fuzz {
namespace {

bool same(const batch::JournalRecord& x, const batch::JournalRecord& y) {
  return x.key == y.key && x.time_ms == y.time_ms && x.exit_code == y.exit_code && x.a == y.a && x.b == y.b &&
         x.out == y.out && x.options == y.options;
}

void read_again(const std::optional<batch::JournalRecord>& record) {
  if (!record) return;
  std::string line = batch::journal_line(*record);
  require(!line.empty() && line.back() == '\n', "a record is a line");
  line.pop_back();
  const auto again = batch::parse_journal_line(line);
  require(again && same(*again, *record), "a record is read as it was written");
  line.pop_back();
  require(!batch::parse_journal_line(line), "a torn line is none");
}

}  // namespace

void fuzz_journal(Bytes bytes) {
  std::string_view rest = text_of(bytes);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    read_again(batch::parse_journal_line(line));
    read_again(batch::parse_journal_line(std::string(line) + "\t."));
  }
}

}  // namespace spmm::fuzz
