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

/// The same of the product of two slabs that read no records but their own, one of many.
double slab_seconds(const Plan& plan, const Problem& p);

/// The same if slabs are read from a scratch file, in memory that the slab before had.
/// Values: num_ranges = of records of B that lie together.
double sorted_slab_seconds(const Plan& plan, const Problem& p, double num_ranges);

/// Seconds of a product all of whose rows are streamed from a scratch file. Values: num_windows = of a row, of which
/// those without C blocks are left out.
double streamed_seconds(const Plan& plan, const Problem& p, double num_windows);

/// Seconds until a device can be used; 0 on the CPU.
double start_seconds(const Plan& plan, const Limits& limits);

/// Seconds to read so many bytes of input from the page cache.
double read_seconds(double bytes, const Limits& limits);

/// Seconds to find records of some columns of B among others and to list them.
double pick_seconds(double num_records, double num_picked);

/// Seconds to find out what slabs of A meet of B.
double count_seconds(const Problem& p);

/// Seconds to sort both operands into a scratch file.
double sort_seconds(const Problem& p);

/// Seconds to merge so many bytes of kept results and hand them on.
double merge_seconds(double bytes);

/// Bytes of the records of a matrix.
double input_bytes(const MatrixHeader& header);

/// Block rows of A, and what they need of B.
struct RowsWork {
  std::uint32_t m = 1;
  double a_blocks = 0;
  double b_blocks = 0;
  double num_ranges = 0;  ///< of records of B that lie together
  double pairs = 0;
  double num_windows = 1;  ///< of a streamed row
};

/// Seconds to multiply rows while B is read past them, and to build and multiply them as a slab, both from a scratch
/// file and without the output.
double streamed_rows_seconds(const RowsWork& rows, const Limits& limits);
double built_rows_seconds(const RowsWork& rows, const Limits& limits);

}  // namespace spmm::plan
