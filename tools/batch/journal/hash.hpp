// XXH64 of a text: names jobs of the journal and tells its torn lines; not meant against forgery.
#pragma once

#include <cstdint>
#include <string_view>

namespace spmm::batch {

/// Source: Yann Collet, the xxHash specification (XXH64). Journals hold these values: they must not change.
std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 0);

}  // namespace spmm::batch
