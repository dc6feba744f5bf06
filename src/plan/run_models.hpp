// How long a whole run would take: start of the device, reading, transfer, product, writing. Pure functions.
#pragma once

#include "plan/execution.hpp"

namespace spmm::plan {

/// Seconds of one product at once, from an execution with predicted_ms. Without the start of the device.
double product_seconds(const Execution& execution, const Statistics& s, const Limits& limits);

/// Seconds until a device can be used; 0 on the CPU, and where its context exists.
double start_seconds(const Execution& execution, const Limits& limits);

/// Seconds to read so many bytes of input.
double read_seconds(double bytes);

/// Seconds to merge so many bytes of kept results and hand them on.
double merge_seconds(double bytes);

/// Bytes of the records of a matrix.
double input_bytes(const MatrixHeader& header);

}  // namespace spmm::plan
