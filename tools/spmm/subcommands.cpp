// The subcommands of spmm, and the list of them.
#include "tools/spmm/subcommands.hpp"

#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "cli/exit_codes.hpp"
#include "cli/options.hpp"
#include "cli/program.hpp"
#include "spmm/error.hpp"

namespace spmm::tools {
namespace {

int help_main(int argc, char** argv);

struct Subcommand {
  const char* program;  ///< "spmm-gen", its name as a program
  const char* summary;
  int (*main)(int argc, char** argv);

  [[nodiscard]] const char* word() const { return program + std::string_view("spmm-").size(); }
};

constexpr Subcommand kSubcommands[] = {
#ifdef SPMM_WITH_TOOLS
    {"spmm-gen", "writes a random matrix", gen_main},
    {"spmm-info", "says what is in a matrix file", info_main},
    {"spmm-compare", "compares two matrix files", compare_main},
    {"spmm-verify", "proves that a file is the product of two others", verify_main},
    {"spmm-cat", "joins results of ascending block rows into one file", cat_main},
    {"spmm-convert", "converts Matrix Market files, and back", convert_main},
    {"spmm-batch", "makes many products, from a list", batch_main},
    {"spmm-bench", "times kernels on named cases", bench_main},
#endif
    {"spmm-help", "shows this; with the name of a subcommand its options", help_main},
};

/// By its name as a program ("spmm-gen"), or as a word. Without memory: whatever fails here would have no message.
const Subcommand* find(std::string_view name, bool is_program) {
  for (const Subcommand& subcommand : kSubcommands) {
    if (name == (is_program ? subcommand.program : subcommand.word())) return &subcommand;
  }
  return nullptr;
}

/// "spmm help NAME"; without a name spmm prints its own help.
int help_main(int argc, char** argv) {
  const Subcommand* about = argc == 2 ? find(argv[1], false) : nullptr;
  if (about != nullptr && about->main != help_main) {
    char option[] = "--help";
    char* words[] = {const_cast<char*>(about->program), option, nullptr};
    return about->main(2, words);
  }
  return cli::run_program("spmm", [&]() -> int {
    if (argc != 2) throw UsageError("help", "takes one word", "name one subcommand; spmm --help lists them");
    std::vector<std::string> known;
    for (const Subcommand& subcommand : kSubcommands) known.emplace_back(subcommand.word());
    throw UsageError("help", text("\"", argv[1], "\" is no subcommand", cli::suggestion(argv[1], known)),
                     "spmm --help lists them");
  });
}

}  // namespace

std::vector<cli::SubcommandName> subcommand_names() {
  std::vector<cli::SubcommandName> names;
  for (const Subcommand& subcommand : kSubcommands) names.push_back({subcommand.word(), subcommand.summary});
  return names;
}

std::optional<int> run_subcommand(int argc, char** argv) {
  const std::string_view path = argc > 0 ? argv[0] : "";
  if (const Subcommand* own = find(path.substr(path.rfind('/') + 1), true)) return own->main(argc, argv);
  const Subcommand* named = argc > 1 ? find(argv[1], false) : nullptr;
  if (named == nullptr) return std::nullopt;
  if (::access(argv[1], F_OK) == 0) {
    return cli::run_program("spmm", [&]() -> int {
      throw UsageError(argv[1], "is a subcommand, and a file here has that name",
                       text("for the file write ./", argv[1], ", for the subcommand ", named->program));
    });
  }
  if (named->main == help_main && (argc == 2 || *argv[2] == '-')) return std::nullopt;  // spmm's own options
  // What messages and reports name.
  argv[1] = program_invocation_short_name = const_cast<char*>(named->program);
  return named->main(argc - 1, argv + 1);
}

}  // namespace spmm::tools
