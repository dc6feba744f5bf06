// Command lines and environments of the programs, parsed and not run. Input: a line a word; the first byte of the input
// chooses the program; "SPMM_X=value" lines at the front are variables.
#include <cstdlib>

#include "cli/options.hpp"
#include "cli/program.hpp"
#include "fuzz/fuzz_support.hpp"
#include "tools/batch/batch.hpp"
#include "tools/convert/convert.hpp"
#include "tools/gen/gen.hpp"
#include "tools/spmm/command_line.hpp"

namespace spmm::fuzz {
namespace {

using Words = std::vector<std::string>;

void parse(std::uint8_t program, const std::vector<const char*>& argv) {
  const int argc = static_cast<int>(argv.size());
  switch (program % 5) {
    case 0:
      cli::parse_options(argc, argv.data());
      return;
    case 1:
      batch::parse_batch_options(argc, argv.data());
      return;
    case 2: {
      cli::OptionTable options = tools::make_gen_options();
      tools::parse_gen_options(options.parse(argc, argv.data()));
      return;
    }
    case 3: {
      cli::OptionTable options = tools::make_convert_options();
      tools::parse_convert_options(options.parse(argc, argv.data()));
      return;
    }
    default:  // what several programs take, word by word
      for (const char* word : argv) {
        accepted([&] { cli::parse_bytes(word); });
        accepted([&] { cli::parse_count(word); });
        accepted([&] { cli::parse_devices(word, "--devices"); });
      }
  }
}

}  // namespace

void fuzz_command_line(Bytes bytes) {
  InputBytes in(bytes);
  const std::uint8_t program = in.u8();
  std::string_view rest = text_of(in.rest());
  Words words = {"program"};
  Words variables;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string word(rest.substr(0, std::min(rest.find('\0'), end)));  // as the system passes words
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t equals = word.find('=');
    const bool is_variable = word.starts_with("SPMM_") || word.starts_with("SLURM_") || word.starts_with("PBS_") ||
                             word.starts_with("LSB_") || word.starts_with("PMI_");
    if (words.size() == 1 && is_variable && equals != std::string::npos) {
      variables.push_back(word.substr(0, equals));
      ::setenv(variables.back().c_str(), word.c_str() + equals + 1, 1);
    } else {
      words.push_back(word);
    }
  }
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  accepted([&] { parse(program, argv); });
  for (const std::string& name : variables) ::unsetenv(name.c_str());
}

}  // namespace spmm::fuzz
