// XXH64.
#include "tools/batch/journal/hash.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace spmm::batch {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5;

template <class T>
T take(std::string_view& text) {
  T value;
  std::memcpy(&value, text.data(), sizeof value);
  text.remove_prefix(sizeof value);
  return value;
}

std::uint64_t mixed(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

std::uint64_t hash_of_stripes(std::string_view& text, std::uint64_t seed) {
  std::array<std::uint64_t, 4> lanes = {seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1};
  while (text.size() >= sizeof lanes) {
    for (std::uint64_t& lane : lanes) lane = mixed(lane, take<std::uint64_t>(text));
  }
  std::uint64_t hash =
      std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
  for (const std::uint64_t lane : lanes) hash = (hash ^ mixed(0, lane)) * kPrime1 + kPrime4;
  return hash;
}

}  // namespace

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {
  const std::size_t size = text.size();
  std::uint64_t hash = (size >= 32 ? hash_of_stripes(text, seed) : seed + kPrime5) + size;
  while (text.size() >= 8) {
    hash = std::rotl(hash ^ mixed(0, take<std::uint64_t>(text)), 27) * kPrime1 + kPrime4;
  }
  if (text.size() >= 4) hash = std::rotl(hash ^ (take<std::uint32_t>(text) * kPrime1), 23) * kPrime2 + kPrime3;
  while (!text.empty()) hash = std::rotl(hash ^ (take<std::uint8_t>(text) * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace spmm::batch
