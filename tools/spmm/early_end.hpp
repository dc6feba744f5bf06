// The end of a process whose files take long to close: another process closes them.
#pragma once

#include <string_view>

namespace spmm::tools {

/// Whether this process may leave files to another one: not as process 1, which would have to wait for it, and not
/// where a tracer, a preloaded library, a sanitizer or a tool of NVIDIA's watches.
bool may_end_early();

/// Starts a process that holds the open files whose paths begin with `prefix` until this process has ended, and then
/// ends, too. It holds nothing else: no other file, folder, memory or program of this process, and it blocks signals.
/// To be called when all is done: the working folder of this process becomes /, and all its files are marked to be
/// closed in programs that it starts. False if no such file is open or the process does not start.
bool leave_files(std::string_view prefix) noexcept;

}  // namespace spmm::tools
