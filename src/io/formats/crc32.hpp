// CRC-32 as zlib, gzip and PNG count it (polynomial 0x04C11DB7, reflected): any such tool can check a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace spmm::io {

/// Checksum of what `crc` stands for (0 = nothing), followed by these bytes.
/// Source: V. Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ (Intel, 2009).
std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes);

/// The same without special instructions.
std::uint32_t crc32_portable(std::uint32_t crc, std::span<const std::byte> bytes);

/// Checksum of a run of bytes followed by another one of second_bytes bytes, from the checksums of both.
std::uint32_t combine_crc32(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

}  // namespace spmm::io
