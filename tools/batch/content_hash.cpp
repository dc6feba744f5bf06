#include "tools/batch/content_hash.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/text.hpp"
#include "io/descriptor.hpp"
#include "spmm/error.hpp"

namespace spmm::batch {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5;
constexpr std::size_t kReadBytes = 1 << 20;

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::uint64_t mixed(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

std::uint64_t merged(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ mixed(0, lane)) * kPrime1 + kPrime4;
}

}  // namespace

ContentHash::ContentHash(std::uint64_t seed)
    : seed_(seed), lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1} {}

void ContentHash::add_stripe(const std::byte* stripe) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane] = mixed(lanes_[lane], load<std::uint64_t>(stripe + lane * sizeof(std::uint64_t)));
  }
}

void ContentHash::add(std::span<const std::byte> bytes) {
  total_ += bytes.size();
  if (num_rest_ > 0) {
    const std::size_t taken = std::min(kStripe - num_rest_, bytes.size());
    std::copy_n(bytes.begin(), taken, rest_.begin() + static_cast<std::ptrdiff_t>(num_rest_));
    num_rest_ += taken;
    bytes = bytes.subspan(taken);
    if (num_rest_ < kStripe) return;
    add_stripe(rest_.data());
    num_rest_ = 0;
  }
  for (; bytes.size() >= kStripe; bytes = bytes.subspan(kStripe)) add_stripe(bytes.data());
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
  num_rest_ = bytes.size();
}

std::uint64_t ContentHash::value() const {
  std::uint64_t hash = seed_ + kPrime5;
  if (total_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (const std::uint64_t lane : lanes_) hash = merged(hash, lane);
  }
  hash += total_;
  std::size_t at = 0;
  for (; at + 8 <= num_rest_; at += 8) {
    hash = std::rotl(hash ^ mixed(0, load<std::uint64_t>(&rest_[at])), 27) * kPrime1 + kPrime4;
  }
  if (at + 4 <= num_rest_) {
    hash = std::rotl(hash ^ (load<std::uint32_t>(&rest_[at]) * kPrime1), 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at < num_rest_; ++at) {
    hash = std::rotl(hash ^ (std::to_integer<std::uint64_t>(rest_[at]) * kPrime5), 11) * kPrime1;
  }
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

std::uint64_t hash_of(std::string_view text, std::uint64_t seed) {
  ContentHash hash(seed);
  hash.add(std::as_bytes(std::span(text)));
  return hash.value();
}

std::uint64_t hash_of_file(const std::filesystem::path& path) {
  const io::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) throw InputError(path.string(), io::error_text(errno), "check the path");
  std::vector<std::byte> buffer(kReadBytes);
  ContentHash hash;
  while (true) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError(path.string(), io::error_text(errno), "check the disk");
    if (got == 0) return hash.value();
    hash.add(std::span(buffer).first(static_cast<std::size_t>(got)));
  }
}

}  // namespace spmm::batch
