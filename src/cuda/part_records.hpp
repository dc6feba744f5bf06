// Records of several devices, parted into one buffer. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace spmm::cuda {

/// Fills a buffer with the records of some devices, each device's side by side.
/// Two devices fill it from both ends, so that records come piece by piece, while they are in the cache; more devices
/// take all records of the buffer at once.
class PartedRecords {
 public:
  /// Values: record_bytes of each record.
  PartedRecords(std::size_t num_devices, std::uint64_t record_bytes)
      : record_bytes_(record_bytes), counts_(num_devices), places_(num_devices) {}

  [[nodiscard]] bool takes_pieces() const { return counts_.size() <= 2; }

  /// Starts with an empty buffer that `num_records` in all will fill.
  void start(std::byte* to, std::uint64_t num_records) {
    begin_ = to;
    end_ = to + num_records * record_bytes_;
    for (std::uint64_t& count : counts_) count = 0;
  }

  /// Shapes: device[x] = whose record x is.
  void add(const std::byte* from, std::span<const std::uint32_t> device) {
    const bool is_whole = !takes_pieces();
    if (is_whole) find_places(device);
    for (std::size_t r = 0; r < device.size();) {
      const std::uint32_t d = device[r];
      std::size_t end = r + 1;
      while (end < device.size() && device[end] == d) ++end;  // neighbours are copied at once
      const std::uint64_t bytes = (end - r) * record_bytes_;
      std::byte* const place = is_whole ? places_[d]
                               : d == 0 ? begin_ + counts_[0] * record_bytes_
                                        : end_ - counts_[1] * record_bytes_ - bytes;
      std::memcpy(place, from + r * record_bytes_, bytes);
      if (is_whole) {
        places_[d] += bytes;
      } else {
        counts_[d] += end - r;
      }
      r = end;
    }
  }

  [[nodiscard]] std::uint64_t count(std::size_t d) const { return counts_[d]; }
  /// The first record of a device, once all records are there.
  [[nodiscard]] const std::byte* first(std::size_t d) const {
    const std::byte* at = begin_;
    for (std::size_t before = 0; before < d; ++before) at += counts_[before] * record_bytes_;
    return at;
  }

 private:
  void find_places(std::span<const std::uint32_t> device) {
    for (const std::uint32_t d : device) ++counts_[d];
    std::byte* place = begin_;
    for (std::size_t d = 0; d < counts_.size(); ++d) {
      places_[d] = place;
      place += counts_[d] * record_bytes_;
    }
  }

  std::uint64_t record_bytes_;
  std::byte* begin_ = nullptr;
  std::byte* end_ = nullptr;
  std::vector<std::uint64_t> counts_;  // [devices]
  std::vector<std::byte*> places_;     // [devices], of the next record
};

}  // namespace spmm::cuda
