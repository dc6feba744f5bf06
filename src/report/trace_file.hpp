// A trace as a file for chrome://tracing and Perfetto.
#pragma once

#include <string>

#include "spmm/report.hpp"
#include "spmm/trace.hpp"

namespace spmm::cli {

/// The trace as JSON: an array of events in the Trace Event Format, times in microseconds. The host and each device are
/// a process with a name, threads and streams are its threads. The product itself is the first event of the thread that
/// called it.
std::string trace_json(const Trace& trace, const Report& report);

/// Writes it; the path holds the old file or the complete new one. Errors: OutputError, IoError.
void write_trace(const std::string& path, const Trace& trace, const Report& report);

}  // namespace spmm::cli
