// What ranks did: as bytes on their way to rank 0, and added up.
#include "mpi/report.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <type_traits>

namespace spmm::mpi {

Bytes encode(const RankReport& rank) {
  static_assert(std::is_trivially_copyable_v<RankReport::Numbers>);
  const std::string words = rank.host + "\n" + rank.backend + "\n" + rank.kernel + "\n" + rank.device + "\n";
  Bytes bytes(sizeof rank.numbers + words.size());
  std::memcpy(bytes.data(), &rank.numbers, sizeof rank.numbers);
  std::memcpy(bytes.data() + sizeof rank.numbers, words.data(), words.size());
  return bytes;
}

RankReport decode(const Bytes& bytes) {
  RankReport rank;
  std::memcpy(&rank.numbers, bytes.data(), sizeof rank.numbers);
  std::istringstream in(std::string(reinterpret_cast<const char*>(bytes.data()) + sizeof rank.numbers,
                                    bytes.size() - sizeof rank.numbers));
  for (std::string* const word : {&rank.host, &rank.backend, &rank.kernel, &rank.device}) std::getline(in, *word);
  return rank;
}

void add_up(DistributedReport& report) {
  Report& whole = report.whole;
  for (const RankReport& rank : report.ranks) {
    const RankReport::Numbers& one = rank.numbers;
    whole.pairs += one.pairs;
    whole.c_blocks += one.num_blocks;
    whole.num_panels += one.num_panels;
    whole.saturated_elements += one.saturated_elements;
    whole.dropped_elements += one.dropped_elements;
    whole.verified_blocks += one.verified_blocks;
    whole.peak_host_bytes = std::max(whole.peak_host_bytes, one.peak_host_bytes);
    whole.peak_device_bytes = std::max(whole.peak_device_bytes, one.peak_device_bytes);
    whole.proof.num_rows += one.proof.num_rows;
    whole.proof.num_saturated += one.proof.num_saturated;
    whole.proof.num_exact_rows += one.proof.num_exact_rows;
    if (one.proof.is_proven) {
      whole.proof.is_proven = true;
      whole.proof.key = one.proof.key;
    }
    if (!whole.plan.kernel.empty() || rank.backend.empty()) continue;
    whole.device = rank.device;
    whole.plan.kernel = rank.kernel;
    whole.plan.backend = rank.backend == backend_name(Backend::cuda) ? Backend::cuda : Backend::cpu;
  }
  whole.c.num_blocks = static_cast<std::uint32_t>(whole.c_blocks);
}

}  // namespace spmm::mpi
