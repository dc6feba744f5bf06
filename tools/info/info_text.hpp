// Prints what spmm-info found: as text and as JSON.
#pragma once

#include <string>

#include "report/json_writer.hpp"
#include "tools/info/matrix_info.hpp"

namespace spmm::tools {

/// One "name: value" a line, then the histogram of blocks per block row.
std::string info_text(MatrixInfo& info);
std::string product_text(const ProductInfo& product, std::uint32_t m);

/// Adds an object. Values: name = "" outermost.
void add_info(cli::JsonWriter& json, const char* name, MatrixInfo& info);
void add_product(cli::JsonWriter& json, const char* name, const ProductInfo& product);

}  // namespace spmm::tools
