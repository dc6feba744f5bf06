// How long products are expected to take, from bytes and pairs: for progress, plans, warnings, and the choice between
// backends, devices and ways out of core. Pure functions.
#pragma once

#include "plan/choice.hpp"

namespace spmm::plan {

/// Seconds that a process spends on starting a device and, at its end, on leaving it.
/// Source: a machine with an H200: 0.2 s to the first copy, 0.04 s for memory and streams, 0.05 to 0.15 s after main.
inline constexpr double kDeviceStartS = 0.35;

/// The same of a device in addition to the first one.
/// Source: two H200s: contexts 0.1 s each, whether started in turn or at once.
inline constexpr double kMoreDeviceStartS = 0.1;

/// Seconds of one product at once. Without the start of the device.
double product_seconds(const Choice& e, const Counts& s, const Limits& limits);

/// The same of a range of a product out of core, one of many.
double range_seconds(const Choice& e, const Counts& s, const Limits& limits);

/// Seconds until a device can be used; 0 on the CPU.
double start_seconds(const Choice& e, const Limits& limits);

/// Seconds to read `bytes` of input from the page cache.
double read_seconds(double bytes, const Limits& limits);

/// Seconds to sort both operands into a scratch file.
double sort_seconds(const Counts& s, const Limits& limits);

/// Bytes of the records of a matrix.
double input_bytes(const MatrixHeader& header);

}  // namespace spmm::plan
