// What spmm-dense says: kernels of the build, a table of results, JSON.
#pragma once

#include <string>

#include "tools/common/json.hpp"
#include "tools/dense/dense_multiply.hpp"
#include "tools/dense/dense_run.hpp"

namespace spmm::tools {

/// "1024x50x1024": J x K x L.
std::string shape_text(dense::Shape shape);

/// Kernels of this build with their types and tile widths, a line each, and as JSON.
std::string dense_kernels_text();
Json dense_kernels_json();

/// First line of the table, and one line of it.
std::string dense_table_header();
std::string dense_table_row(const DenseResult& result);

/// What the last column means for a finished product: how many rows were compared, and with what.
std::string check_text(const DenseProduct& product, const DenseOptions& options);

/// One entry of "products" in the JSON.
Json dense_product_json(const DenseProduct& product);

}  // namespace spmm::tools
