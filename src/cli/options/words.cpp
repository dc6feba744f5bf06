// Names of option fields in messages of the library, as names of options.
#include "cli/options/words.hpp"

#include <utility>

namespace spmm::cli {
namespace {

/// What the library says, and what is typed. A text comes before those that it starts with.
constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"EngineOptions::devices", "--devices"},
    {"EngineOptions::device", "--device"},
    {"EngineOptions::num_threads", "--threads"},
    {"EngineOptions::memory_limit_bytes", "--memory-limit"},
    {"ProductOptions::backend = ", "--backend "},
    {"ProductOptions::backend", "--backend"},
    {"ProductOptions::kernel", "--kernel"},
    {"ProductOptions::max_threads", "--threads"},
    {"ProductOptions::force = true", "--force"},
    {"ProductOptions::transpose_a", "--transpose-a"},
    {"ProductOptions::transpose_b", "--transpose-b"},
    {"ProductOptions::rows", "--rows"},
    {"ProductOptions::no_clobber", "--no-clobber"},
    {"ProductOptions::durable", "--durable"},
    {"ProductOptions::on_saturation = ", "--on-saturation "},
    {"ProductOptions::on_saturation", "--on-saturation"},
    {"ProductOptions::verify_blocks", "--verify"},
    {"ProductOptions::verify_full", "--verify full"},
    {"ProductOptions::verify_seed", "--verify-seed"},
    {"ProductOptions::proof_key", "--verify-seed"},
};

}  // namespace

std::string command_line_words(std::string_view message) {
  std::string out;
  for (std::size_t at = 0; at < message.size();) {
    std::size_t length = 1;
    std::string_view said = message.substr(at, 1);
    for (const auto& [library, typed] : kWords) {
      if (!message.substr(at).starts_with(library)) continue;
      length = library.size();
      said = typed;
      break;
    }
    out += said;
    at += length;
  }
  return out;
}

}  // namespace spmm::cli
