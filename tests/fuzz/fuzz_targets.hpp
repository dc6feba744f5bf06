// The fuzz targets: each takes bytes from outside through one reader of the product.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace spmm::fuzz {

using Bytes = std::span<const std::uint8_t>;

/// Every error that the product documents is a fine answer. Anything else ends the process: an unknown exception, a
/// broken promise, a fault.
using Target = void (*)(Bytes bytes);

void fuzz_matrix_file(Bytes bytes);
void fuzz_records(Bytes bytes);
void fuzz_product(Bytes bytes);
void fuzz_command_line(Bytes bytes);
void fuzz_job_list(Bytes bytes);
void fuzz_mtx(Bytes bytes);
void fuzz_json(Bytes bytes);

struct NamedTarget {
  std::string_view name;  ///< also of its folder in corpus/
  Target run;
};

inline constexpr NamedTarget kTargets[] = {
    {"matrix_file", fuzz_matrix_file},
    {"records", fuzz_records},
    {"product", fuzz_product},
    {"command_line", fuzz_command_line},
    {"job_list", fuzz_job_list},
    {"mtx", fuzz_mtx},
    {"json", fuzz_json},
};

/// The target that LLVMFuzzerTestOneInput() runs. Returns false if there is none of that name.
bool select_target(std::string_view name);

}  // namespace spmm::fuzz
