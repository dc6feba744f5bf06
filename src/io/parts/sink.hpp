// The sink of a result in parts, with what tests vary and what the report wants.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "io/files/file_sink.hpp"
#include "spmm/io.hpp"
#include "spmm/report.hpp"

namespace spmm::io {

/// Threads: as FileSink.
class PartsSink : public Sink {
 public:
  /// What has been written, after finish().
  [[nodiscard]] virtual const std::vector<ResultPart>& parts() const = 0;
};

/// open_parts_sink() with everything said. Errors: OutputError.
std::unique_ptr<PartsSink> open_tuned_parts_sink(const std::filesystem::path& path, std::uint32_t m,
                                                 std::uint32_t num_parts, const FileSinkOptions& options,
                                                 const FileSinkTuning& tuning);

}  // namespace spmm::io
