// The command line of spmm and spmm-mpi.
#include "tools/spmm/command_line.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "cli/options.hpp"
#include "cli/program.hpp"
#include "io/files/paths.hpp"
#include "io/formats/foreign_format.hpp"
#include "spmm/error.hpp"

namespace spmm::cli {
namespace {

/// What --help shows of spmm; --help all shows the rest.
const std::vector<std::string> kFirstOptions = {"backend", "threads", "memory-limit", "plan",    "transpose-a",
                                                "rows",    "verify",  "report",       "version", "help"};
constexpr const char* kFirstNotes = R"(
Examples:
  spmm a.bin b.bin c.bin                         the fastest way this machine has
  spmm --plan a.bin b.bin                        will it fit, and what would run
  spmm --verify full a.bin b.bin c.bin           prove every row of the result

All options, kernels, variables and exit codes: spmm --help all
)";

OptionTable describe(const std::string& program) {
  using cli::value;
  OptionTable options(program, "Multiplies two block-sparse matrices: OUT = A * B, exact, saturated at 4294967295.\n");
  options.usage("[options] A B OUT");
  const bool is_alone = program == "spmm";
  // Of one process: ranks know these too, to say what to do instead.
  const auto alone = [is_alone](const char* group) { return is_alone ? group : "hidden"; };
  constexpr const char* kPlace = "Where and how";
  options.add_options(kPlace)                                                                               //
      ("backend", "where to compute; auto = where it is predicted to end first", value(), "auto|cuda|cpu")  //
      ("kernel", "multiply kernel, see the list below", value(), "NAME")                                    //
      ("device", "CUDA device; auto = choose", value(), "auto|N");
  options.add_options(alone(kPlace))  //
      ("devices",
       "CUDA devices that share the product; each takes about 0.3 s to start; auto = more than one if that ends "
       "earlier",
       value(), "auto|all|N,N...");
  options.add_options(kPlace)                                                                                   //
      ("threads", "host threads; 0 = every core this process may use", value(), "N")                            //
      ("memory-limit", "for buffers, on host and device each; default: most of what is free", value(), "SIZE")  //
      ("force", "start also what is predicted to take more than a day; lift the launch limit of host-driven");
  options.add_options(alone(kPlace))("plan", "print sizes, memory, kernel and panels, and run nothing");
  options.add_options("Operands and result")                                                                    //
      ("transpose-a", "multiply by the transpose of A, made as A is read")                                      //
      ("transpose-b", "multiply by the transpose of B")                                                         //
      ("gram", "multiply A by its own transpose, OUT = A * A^T, from A OUT alone; with --transpose-a A^T * A")  //
      ("rows", "compute these block rows of OUT alone; spmm cat joins the files of several ranges", value(),
       "FIRST:END");
  options.add_options(alone("Operands and result"))  //
      ("pattern", "compute only the blocks of OUT that this matrix has, whatever their values are; in memory", value(),
       "FILE");
  add_selection_options(options, "Operands and result");
  options.add_options("Operands and result")                                                                     //
      ("no-clobber", "refuse to replace an existing output")                                                     //
      ("durable", "wait until the output would survive a power cut (fsync)")                                     //
      ("strict-space", "refuse to start if the result is not expected to fit the disk; else that is a warning")  //
      ("on-saturation", "if elements of the result reach 4294967295: report = say how many, error = write nothing",
       value(), "report|error")  //
      ("verify",
       "before the output appears: prove the result in the block rows of N random blocks of A; full = prove all of it",
       value(), "full|N")  //
      ("verify-seed", "seed of --verify, for tests; without it, proofs take the system's random numbers", value(), "N");
  options.add_options("Messages")("report", "write a JSON report; - = standard output", value(), "FILE");
  options.add_options(alone("Messages"))                                                                           //
      ("trace", "write what each thread and stream did when, for Perfetto and chrome://tracing", value(), "FILE")  //
      ("progress", "progress bar on standard error; auto = on a terminal", value(), "auto|always|never");
  options.add_options("Messages")                                                 //
      ("q,quiet", is_alone ? "no summary line, no progress" : "no summary line")  //
      ("v,verbose", is_alone ? "plan and stage table on standard error" : "what each rank did, on standard error");
  add_common_options(options, "Messages");
  options.add_options("positional")  //
      ("A", "left operand", value())("B", "right operand", value())("OUT", "product", value());
  options.parse_positional({"A", "B", "OUT"});
  return options;
}

void set_files(CliOptions& options, const ParsedOptions& parsed) {
  const bool is_gram = option_flag(parsed, "gram");
  const char* const last = is_gram ? "B" : "OUT";
  options.a = required_positional(parsed, "A", "left operand (A)");
  options.b = is_gram ? options.a : std::filesystem::path(required_positional(parsed, "B", "right operand (B)"));
  if (is_gram && (options.run.transpose_b || parsed.count("OUT") != 0)) {
    throw UsageError("--gram",
                     options.run.transpose_b ? "is given together with --transpose-b" : "takes A and OUT alone",
                     "give one operand; --transpose-a for A^T * A");
  }
  if (is_gram) options.run.transpose_b = !options.run.transpose_a;
  if (options.plan && parsed.count(last) == 0) return;
  const std::string out = required_positional(parsed, last, "output (OUT)", Dash::refused_output);
  io::reject_foreign_ending(out);
  options.out = out;
}

/// Errors: UsageError if an option's file is one of the others.
void check_other_file(const OptionText& given, const std::vector<std::filesystem::path>& others, const char* what) {
  for (const std::filesystem::path& file : others) {
    if (file.empty() || file == "/dev/null" || !same_file(given.value, file)) continue;
    throw UsageError(given.where, text(given.value, " is the same file as ", file.string()),
                     text("give the ", what, " another name"));
  }
}

/// The file of an option of spmm alone; nothing if it is not given. Errors: UsageError, also with --plan.
std::optional<OptionText> file_of_spmm(const ParsedOptions& parsed, const std::string& option,
                                       const std::string& program, const char* instead) {
  const auto given = file_option(parsed, option);
  if (!given) return given;
  if (program != "spmm") throw UsageError(given->where, "is not an option of " + program, instead);
  if (option_flag(parsed, "plan")) {
    throw UsageError(given->where, "is given together with --plan, which runs nothing", "leave one out");
  }
  return given;
}

void set_other_files(CliOptions& options, const ParsedOptions& parsed, const std::string& program) {
  if (const auto given = file_of_spmm(parsed, "pattern", program, "multiply with spmm, --rows for each host")) {
    options.run.pattern = given->value;
  }
  if (const auto given = file_option(parsed, "report")) {
    options.report = given->value;
    if (options.report != "-") {
      check_other_file(*given, {options.a, options.b, options.out, options.run.pattern}, "report");
    }
  }
  if (const auto given = file_of_spmm(parsed, "trace", program, "trace a run of spmm")) {
    if (given->value == "-") throw UsageError(given->where, "names no file", "name one such as trace.json");
    options.trace = given->value;
    check_other_file(*given, {options.a, options.b, options.out, options.report, options.run.pattern}, "trace");
  }
}

/// Errors: UsageError for what is no file, but nearly a subcommand or an option.
void check_first_word(const std::string& word, const ProgramPage& page) {
  if (word.starts_with("-") || word == "help" || std::filesystem::exists(std::filesystem::symlink_status(word))) return;
  std::vector<std::string> words;
  for (const SubcommandName& one : page.subcommands) words.push_back(one.word);
  std::string meant = suggestion(word, words);
  std::vector<std::string> options;
  for (const OptionDetails& one : page.options) options.push_back(one.name);
  if (meant.empty()) meant = suggestion(word, options, "--");
  if (meant.empty()) return;
  throw UsageError(word, "is neither a file nor a subcommand" + meant, "spmm --help lists subcommands and options");
}

}  // namespace

void add_selection_options(OptionTable& options, const std::string& group) {
  options.add_options(group)  //
      ("triangle", "upper: keep the elements whose column is not below their row, and compute no others", value(),
       "upper|none")                                        //
      ("no-diagonal", "drop the elements of the diagonal")  //
      ("at-least", "drop smaller elements", value(), "T")   //
      ("keep",
       "of each element row keep the K largest elements that are left; of equal ones the lower columns; 0 = all",
       value(), "K");
}

bool set_product_option(ProductOptions& product, std::string_view key, const std::string& value,
                        const std::string& where) {
  constexpr std::uint64_t kMost = 0xFFFF'FFFFu;
  const auto is_on = [&] {
    if (value == "1" || value == "true" || value == "yes" || value == "on") return true;
    if (value == "0" || value == "false" || value == "no" || value == "off") return false;
    throw UsageError(where, "\"" + value + "\" is neither on nor off", "write 1 or 0");
  };
  if (key == "backend") {
    constexpr std::array kBackends = {Backend::automatic, Backend::cuda, Backend::cpu};
    product.backend = kBackends[parse_choice(value, where, {"auto", "cuda", "cpu"})];
  } else if (key == "kernel") {
    std::vector<std::string> names = {"auto"};
    for (const KernelInfo& kernel : kernel_names()) names.push_back(kernel.name);
    product.kernel = names[parse_choice(value, where, names)];
  } else if (key == "verify") {
    const std::uint64_t blocks = parse_verify(value, where);
    product.verify_full = blocks == kVerifyFull;
    product.verify_blocks = product.verify_full ? 0 : blocks;
  } else if (key == "on-saturation") {
    constexpr std::array kOnSaturation = {OnSaturation::report, OnSaturation::error};
    product.on_saturation = kOnSaturation[parse_choice(value, where, {"report", "error"})];
  } else if (key == "rows") {
    product.rows = parse_rows(value, where);
  } else if (key == "transpose-a") {
    product.transpose_a = is_on();
  } else if (key == "transpose-b") {
    product.transpose_b = is_on();
  } else if (key == "triangle") {
    product.selection.upper_triangle = parse_choice(value, where, {"upper", "none"}) == 0;
  } else if (key == "no-diagonal") {
    product.selection.no_diagonal = is_on();
  } else if (key == "at-least") {
    product.selection.at_least = static_cast<std::uint32_t>(parse_count(value, where, 0, kMost));
  } else if (key == "keep") {
    product.selection.keep = static_cast<std::uint32_t>(parse_count(value, where, 0, kMost));
  } else if (key == "durable") {
    product.durable = is_on();
  } else if (key == "no-clobber") {
    product.no_clobber = is_on();
  } else {
    return false;
  }
  return true;
}

void set_product_options(ProductOptions& product, const ParsedOptions& parsed) {
  for (const char* const option : {"kernel", "verify", "on-saturation", "rows", "triangle", "at-least", "keep"}) {
    if (const auto given = option_text(parsed, option)) set_product_option(product, option, given->value, given->where);
  }
  for (const char* const option : {"transpose-a", "transpose-b", "no-diagonal", "durable", "no-clobber"}) {
    if (option_flag(parsed, option)) set_product_option(product, option, "1", option);
  }
}

std::uint64_t memory_limit_option(const ParsedOptions& parsed) {
  const auto bytes = option_bytes(parsed, "memory-limit");
  if (bytes != std::uint64_t{0}) return bytes.value_or(0);
  throw UsageError("--memory-limit", "is 0 bytes", "give a limit such as 8G, or leave it out for most of what is free");
}

ProgressMode progress_option(const ParsedOptions& parsed) {
  constexpr std::array kModes = {ProgressMode::automatic, ProgressMode::always, ProgressMode::never};
  return kModes[option_choice(parsed, "progress", {"auto", "always", "never"})];
}

std::string unused_gpus_warning(bool has_cuda, std::size_t num_gpus) {
  if (num_gpus == 0 || has_cuda) return "";
  return "this machine has a GPU, but this program is built without CUDA and computes on the CPU; "
         "bash tools/scripts/demo.sh --cuda builds it for the GPU, --backend cpu silences this";
}

CliOptions parse_options(int argc, const char* const* argv, const std::string& program, std::string (*notes)(),
                         const std::vector<SubcommandName>& subcommands) {
  OptionTable description = describe(program);
  description.subcommands(subcommands);
  if (argc > 1 && !subcommands.empty()) check_first_word(argv[1], description.page());
  const ParsedOptions parsed = description.parse(argc, argv);
  CliOptions options;
  const bool asks_all = parsed.count("help-all") > 0 || (parsed.count("help") > 0 && program != "spmm");
  if (!asks_all) description.show_only(kFirstOptions);
  options.answer = requested_text(parsed, description, asks_all && notes != nullptr ? notes() : kFirstNotes);
  if (options.answer) return options;

  options.run.backend = backend_option(parsed);
  options.run.device = device_option(parsed);
  options.run.devices = devices_option(parsed);
  if (!options.run.devices.empty() && program != "spmm") {
    throw UsageError("--devices", "is not an option of " + program, "start a rank for each device");
  }
  options.run.num_threads = threads_option(parsed);
  options.run.memory_limit_bytes = memory_limit_option(parsed);
  if (const auto seed = option_count(parsed, "verify-seed", 1)) options.run.verify_seed = options.run.proof_key = *seed;
  set_product_options(options.run, parsed);
  options.run.force = option_flag(parsed, "force");
  options.strict_space = option_flag(parsed, "strict-space");
  options.plan = option_flag(parsed, "plan");
  options.quiet = option_flag(parsed, "quiet");
  options.verbose = option_flag(parsed, "verbose");
  options.progress = progress_option(parsed);
  if (options.quiet && options.verbose) {
    throw UsageError("--quiet", "is given together with --verbose", "leave one of them out");
  }
  set_files(options, parsed);
  set_other_files(options, parsed, program);
  return options;
}

std::string spmm_notes() {
  std::string help = R"(
Examples:
  spmm a.bin b.bin c.bin                         the fastest way this machine has
  spmm --backend cpu --threads 8 a.bin b.bin c.bin
  spmm --plan a.bin b.bin                        will it fit, and what would run
  spmm --memory-limit 2G --report r.json a.bin b.bin c.bin
  spmm --verify 100 --durable a.bin b.bin c.bin  check some rows, survive a power cut
  spmm --verify full a.bin b.bin c.bin           prove every row of the result
  spmm --rows 0:1000 a.bin b.bin c0.bin          the first 1000 block rows of the result; spmm cat joins such files
  spmm --gram --triangle upper --at-least 5 a.bin c.bin
                                                 A * A^T: its upper triangle, elements of 5 and more
  spmm --devices 0,1 a.bin b.bin c.bin           one product on two GPUs
  spmm --report - -q a.bin b.bin /dev/null       measure only
  spmm --trace t.json a.bin b.bin c.bin          a timeline of its threads, for https://ui.perfetto.dev

Kernels:
  auto            the fastest known one for the backend
)";
  for (const KernelInfo& kernel : kernel_names()) {
    help += text("  ", kernel.name, std::string(16 - std::min<std::size_t>(15, kernel.name.size()), ' '),
                 backend_name(kernel.backend), has_backend(kernel.backend) ? "" : ", not built", ": ", kernel.summary,
                 "\n");
  }
  help += R"(
Environment:
  SPMM_BACKEND, SPMM_THREADS and SPMM_MEMORY_LIMIT stand for the options of these names, in all programs. The command
  line wins.

Exit codes:
   0  done
   1  --verify found a difference
   2  wrong command line
  65  an input breaks the format
  66  an input cannot be opened
  69  backend or device unavailable
  70  internal error: please report it
  71  does not fit the memory or the limit
  73  the output cannot be created, or does not fit (--strict-space)
  74  reading or writing failed
  75  interrupted; nothing was written, safe to run again
  76  elements at the limit (--on-saturation error); nothing was written
)";
  return help;
}

}  // namespace spmm::cli
