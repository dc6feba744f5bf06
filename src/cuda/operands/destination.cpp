// A matrix on its way to one device: staging, and parsing section by section.
#include "cuda/operands/destination.hpp"

#include <algorithm>

#include "kernels/blocks/launch.hpp"
#include "kernels/tuning.hpp"

namespace spmm::cuda {

std::uint64_t chunk_records(const MatrixHeader& header) {
  return std::max<std::uint64_t>(1, kernels::kRingSlotBytes / input_record_bytes(header.m));
}

ParsedMatrix allocate_parsed(const MatrixHeader& header, DeviceMemory& memory) {
  return {.keys = {memory, header.num_blocks, "sort keys"},
          .values = {memory, std::uint64_t{header.m} * header.m * header.num_blocks, "input elements"},
          .max_element = 0,
          .has_zeros = {}};
}

void add_destination(std::deque<Destination>& all, const MatrixHeader& header, const SectionSizes& sections,
                     ParsedMatrix& parsed, const UploadTarget& target) {
  const ParseFindings nothing;
  const std::uint64_t bytes =
      std::min<std::uint64_t>(sections.records, header.num_blocks) * input_record_bytes(header.m);
  Destination& to = all.emplace_back(parsed, target, bytes, sections.take_turns);
  const Event allocated;
  allocated.record(target.memory.stream());
  to.stream.wait_for(allocated);
  copy_async(to.findings.data(), &nothing, 1, to.stream);
  to.stream.synchronize();
}

void parse(const Section& section, const MatrixHeader& header, const ParseShape& shape, Destination& to) {
  ParseFindings* const findings = to.findings.data();
  to.events.timed(Stage::build, to.stream, [&] {
    kernels::launch_parse_records({.data = to.staging.at(section.turn).data(),
                                   .first = section.first,
                                   .count = section.num_records,
                                   .m = header.m,
                                   .nb = header.blocks_per_side(),
                                   .key_bits = shape.key_bits,
                                   .transpose = shape.transpose},
                                  {.keys = to.parsed.keys.data(),
                                   .values = to.parsed.values.data(),
                                   .first_bad = &findings->first_bad,
                                   .max_element = &findings->max_element,
                                   .has_zeros = &findings->has_zeros},
                                  to.stream.get());
  });
}

ParseFindings take_findings(const Destination& to, std::uint32_t m) {
  const ParseFindings findings = fetch(to.findings.data(), to.stream);
  to.parsed.max_element = findings.max_element;
  if (kernels::parsing_finds_zeros(m)) to.parsed.has_zeros = findings.has_zeros != 0;
  return findings;
}

}  // namespace spmm::cuda
