// How long a whole run would take: start of the device, reading, transfer, product, writing. Pure functions.
#pragma once

#include "plan/inputs/statistics.hpp"
#include "spmm/plan.hpp"

namespace spmm::plan {

/// Seconds that a process spends on starting a device and, at its end, on leaving it.
/// Source: a machine with an H200: 0.2 s to the first copy, 0.04 s for memory and streams, 0.05 to 0.15 s after main.
inline constexpr double kDeviceStartS = 0.35;

/// The same of a device in addition to the first one.
/// Source: two H200s: contexts 0.1 s each, whether started in turn or at once.
inline constexpr double kMoreDeviceStartS = 0.1;

/// Seconds of one product at once, from a plan with predicted_ms. Without the start of the device.
double product_seconds(const Plan& plan, const Problem& p);

/// The same of a range of a product out of core, one of many.
double range_seconds(const Plan& plan, const Problem& p);

/// Seconds until a device can be used; 0 on the CPU.
double start_seconds(const Plan& plan, const Limits& limits);

/// Seconds to read so many bytes of input from the page cache.
double read_seconds(double bytes, const Limits& limits);

/// Seconds to sort both operands into a scratch file.
double sort_seconds(const Problem& p);

/// Seconds to merge so many bytes of kept results and hand them on.
double merge_seconds(double bytes);

/// Bytes of the records of a matrix.
double input_bytes(const MatrixHeader& header);

}  // namespace spmm::plan
