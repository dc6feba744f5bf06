// XXH64: a fast 64-bit hash of bytes, not meant against forgery.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace spmm::batch {

/// XXH64 of bytes that come piece by piece.
/// Source: Yann Collet, the xxHash specification (XXH64).
class ContentHash {
 public:
  explicit ContentHash(std::uint64_t seed = 0);
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t value() const;

 private:
  static constexpr std::size_t kStripe = 32;

  void add_stripe(const std::byte* stripe);

  std::uint64_t seed_;
  std::array<std::uint64_t, 4> lanes_;
  std::array<std::byte, kStripe> rest_{};
  std::size_t num_rest_ = 0;
  std::uint64_t total_ = 0;
};

std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 0);

/// Errors: InputError (cannot open), IoError.
std::uint64_t hash_of_file(const std::filesystem::path& path);

}  // namespace spmm::batch
