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
    {"spmm-help", "lists the subcommands; with the name of one: its options", help_main},
};

/// By its name as a program ("spmm-gen"), or as a word. Without memory: whatever fails here would have no message.
const Subcommand* find(std::string_view name, bool is_program) {
  for (const Subcommand& subcommand : kSubcommands) {
    if (name == (is_program ? subcommand.program : subcommand.word())) return &subcommand;
  }
  return nullptr;
}

std::string list_of_subcommands() {
  constexpr std::size_t kColumn = 10;
  std::string list =
      "spmm A B OUT multiplies two block-sparse matrices; spmm --help shows its options.\n\nSubcommands:\n";
  for (const Subcommand& subcommand : kSubcommands) {
    const std::string word = subcommand.word();
    list += text("  ", word, std::string(kColumn - word.size(), ' '), subcommand.summary, "\n");
  }
  return list +
         "\nspmm NAME is the program spmm-NAME, and its messages begin with that; spmm help NAME shows its options.\n"
         "An operand that is called like a subcommand is given as ./NAME.\n"
         "Programs of their own: spmm-mpi, spmm-dense.\n";
}

int help_main(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "help";
  const Subcommand* about = find(word, false);
  if (argc <= 2 && about != nullptr && about->main != help_main) {
    char option[] = "--help";
    char* words[] = {const_cast<char*>(about->program), option, nullptr};
    return about->main(2, words);
  }
  return cli::run_program("spmm", [&] {
    if (argc > 2) {
      throw UsageError("help", text("unexpected argument \"", argv[2], "\""),
                       "name one subcommand; spmm help lists them");
    }
    if (about == nullptr && word != "--help" && word != "-h") {
      std::vector<std::string> known;
      for (const Subcommand& subcommand : kSubcommands) known.emplace_back(subcommand.word());
      throw UsageError("help", text("\"", word, "\" is no subcommand", cli::suggestion(argv[1], known)),
                       "spmm help lists them");
    }
    cli::print_answer(list_of_subcommands());
    return cli::kOk;
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
  // What messages and reports name.
  argv[1] = program_invocation_short_name = const_cast<char*>(named->program);
  return named->main(argc - 1, argv + 1);
}

}  // namespace spmm::tools
