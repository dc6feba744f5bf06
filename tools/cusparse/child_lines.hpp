// Work in a separate process that sends its results line by line: a fault or a hang ends the process, not the run.
#pragma once

#include <functional>
#include <string>

namespace spmm::tools {

/// What the child calls for every line that it has to send; lines hold no line feeds.
using SendLine = std::function<void(const std::string& line)>;

/// Runs `child` in a forked process and on_line() for each of its lines. The process is killed where it says nothing
/// for `patience_s`. Returns why it ended: "" after child() came back, else "no word for 30 s", "signal 9" or what
/// child() threw. Errors: IoError (no process), Interrupted. Values: the caller must not have started threads.
std::string run_child(double patience_s, const std::function<void(const SendLine& send)>& child,
                      const std::function<void(const std::string& line)>& on_line);

}  // namespace spmm::tools
