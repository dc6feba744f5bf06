// Records of several devices lie side by side in a buffer, whatever pieces they came in.
#include "cuda/part_records.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "support/catch.hpp"

namespace {

using spmm::cuda::PartedRecords;

/// The records of each device, sorted: their order does not matter.
std::vector<std::vector<std::uint32_t>> parted(const std::vector<std::uint32_t>& records,
                                               const std::vector<std::uint32_t>& device, std::size_t num_devices,
                                               std::size_t piece) {
  PartedRecords parts(num_devices, sizeof(std::uint32_t));
  std::vector<std::byte> buffer(records.size() * sizeof(std::uint32_t));
  if (!parts.takes_pieces()) piece = std::max<std::size_t>(1, records.size());
  parts.start(buffer.data(), 1);  // a buffer before this one leaves nothing behind
  if (!records.empty()) parts.add(reinterpret_cast<const std::byte*>(records.data()), {device.data(), 1});
  parts.start(buffer.data(), records.size());
  for (std::size_t at = 0; at < records.size(); at += piece) {
    const std::size_t some = std::min(piece, records.size() - at);
    parts.add(reinterpret_cast<const std::byte*>(records.data() + at), {device.data() + at, some});
  }
  std::vector<std::vector<std::uint32_t>> found;
  for (std::size_t d = 0; d < num_devices; ++d) {
    auto& own = found.emplace_back(records.empty() ? 0 : parts.count(d));
    if (!own.empty()) std::memcpy(own.data(), parts.first(d), own.size() * sizeof(std::uint32_t));
    std::sort(own.begin(), own.end());
  }
  return found;
}

}  // namespace

TEST_CASE("part records: every record is with its device, once") {
  std::minstd_rand random(1);
  for (const std::size_t num_devices : {1u, 2u, 3u, 8u}) {
    for (const std::size_t count : {0u, 1u, 7u, 1000u}) {
      for (const unsigned run : {1u, 5u, 2000u}) {  // neighbours of one device
        std::vector<std::uint32_t> records;
        std::vector<std::uint32_t> device;
        std::vector<std::vector<std::uint32_t>> expected(num_devices);
        std::uint32_t d = 0;
        for (std::uint32_t x = 0; x < count; ++x) {
          if (x % run == 0) d = static_cast<std::uint32_t>(random() % num_devices);
          records.push_back(x);
          device.push_back(d);
          expected[d].push_back(x);
        }
        for (const std::size_t piece : {1u, 3u, 64u, 1000u}) {
          INFO(num_devices << " devices, " << count << " records, runs of " << run << ", pieces of " << piece);
          CHECK(parted(records, device, num_devices, piece) == expected);
        }
      }
    }
  }
}
