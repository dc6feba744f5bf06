// One case of spmm-cusparse: operands as CSR, every way to multiply them, and the results as JSON.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/common/json.hpp"
#include "tools/cusparse/cusparse_product.hpp"

namespace spmm::tools {

struct CusparseCaseOptions {
  std::vector<CusparseWay> ways;
  CusparseOptions product;
  double patience_s = 30;  ///< for one way, and for reading the operands
  std::uint64_t check_products =
      0;  ///< values are compared with spmm's where the product has at most so many multiply-adds
  unsigned num_threads = 0;
};

/// Files of A and B; called in the process that reads them, which makes them where they are not there.
using MakeInputs = std::function<std::pair<std::filesystem::path, std::filesystem::path>()>;

/// Runs all ways, in processes that end with what goes wrong in them.
/// Returns {operands: {...}, kernels: [one for each way]}; status of a way: ok, refused (the library or the device said
/// no; reason), failed (its process ended or fell silent; reason). "device" is there once a process has found it.
/// Errors: Interrupted, IoError (no process).
Json run_cusparse_case(const MakeInputs& make_inputs, const CusparseCaseOptions& options);

/// A line of Markdown for each way.
std::string cusparse_rows(const std::string& name, const Json& found);
std::string cusparse_head();

}  // namespace spmm::tools
