// What happened when: the intervals of one product, by thread and by device stream.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace spmm {

/// What an interval worked on, intervals within it left out, which have their own; 0 or kNoPanel if that has no
/// meaning or is not known.
struct StageWork {
  /// No row panel.
  static constexpr std::uint64_t kNoPanel = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t bytes = 0;         ///< moved
  std::uint64_t pairs = 0;         ///< block products
  std::uint64_t panel = kNoPanel;  ///< row panel, or unit of work of the CPU, in result order
};

/// One interval. Values: times in nanoseconds since the product began.
struct TraceEvent {
  std::string_view name{};    ///< of a stage
  std::int64_t begin_ns = 0;  ///< since the product began
  std::int64_t end_ns = 0;    ///< the same
  StageWork work{};           ///< of several intervals: sums, and the first panel
  std::uint32_t num = 1;      ///< neighbouring short intervals of one name are one event
  std::uint32_t depth = 0;    ///< number of events of the track that contain it
};

/// What one thread or one stream did. Values: events in the order of their beginnings, an event before those that it
/// contains; two events are apart, or one contains the other.
struct TraceTrack {
  int device = -1;                   ///< CUDA device of a stream; -1: a thread of the host
  std::string owner{};               ///< name of the device
  std::string name{};                ///< "main", "worker 1", "writer 1", "stream 2"
  std::vector<TraceEvent> events{};  ///< by their beginnings
};

/// One product. Values: the first track is that of the thread that called multiply().
struct Trace {
  std::int64_t end_ns = 0;           ///< when the product was done
  std::vector<TraceTrack> tracks{};  ///< threads of the host, then streams
};

}  // namespace spmm
