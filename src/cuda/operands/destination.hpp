// What every way of bringing records to devices shares: staging on the device, and parsing section by section.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>

#include "cuda/device/errors.hpp"
#include "cuda/operands/upload.hpp"

namespace spmm::cuda {

inline constexpr unsigned long long kNoRecord = std::numeric_limits<unsigned long long>::max();

/// What parsing tells of a matrix; on the device.
struct ParseFindings {
  unsigned long long first_bad = kNoRecord;
  std::uint32_t max_element = 0;
  std::uint32_t has_zeros = 0;
};

/// Does something on the device of a target; errors name it if there are several.
template <class Body>
void on_device(std::span<const UploadTarget> targets, std::size_t d, const Body& body) {
  DeviceContext& context = targets[d].memory.context();
  const DeviceGuard guard(context.device());
  if (targets.size() == 1) return body();
  naming_device(context, body);
}

/// A matrix on its way to one device.
struct Destination {
  Destination(ParsedMatrix& to, const UploadTarget& target, std::uint64_t staging_bytes, bool takes_turns)
      : parsed(to),
        events(target.events),
        staging{DeviceBuffer<std::byte>(target.memory, staging_bytes, "upload"),
                DeviceBuffer<std::byte>(target.memory, takes_turns ? staging_bytes : 0, "upload")},
        findings(target.memory, 1, "flags"),
        stream(target.memory.context()) {}

  ParsedMatrix& parsed;
  StageEvents& events;
  std::array<DeviceBuffer<std::byte>, 2> staging;  // raw records of a section; sections take turns
  DeviceBuffer<ParseFindings> findings;            // [1]
  Stream stream;                                   // last: waits for the parsing before anything else goes
};

/// Records that are parsed together.
struct Section {
  std::size_t turn = 0;  // which staging has them
  std::uint64_t first = 0;
  std::uint64_t num_records = 0;
};

struct SectionSizes {
  std::uint64_t records = 0;  // the last section may have less
  bool take_turns = false;    // in two stagings
};

/// How records become keys.
struct ParseShape {
  unsigned key_bits = 0;
  bool transpose = false;  // blocks
};

/// Records that fit a slot, at least one.
std::uint64_t chunk_records(const MatrixHeader& header);

ParsedMatrix allocate_parsed(const MatrixHeader& header, DeviceMemory& memory);

/// Adds a device. Stream: the flags are set, and what is allocated can be used on the new stream.
void add_destination(std::deque<Destination>& to, const MatrixHeader& header, const SectionSizes& sections,
                     ParsedMatrix& parsed, const UploadTarget& target);

/// Parses a section on the stream of the destination.
void parse(const Section& section, const MatrixHeader& header, const ParseShape& shape, Destination& to);

/// Takes over what the parsing has found. Waits for the stream.
ParseFindings take_findings(const Destination& to, std::uint32_t m);

}  // namespace spmm::cuda
