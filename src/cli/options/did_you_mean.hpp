// Known words that are close to an unknown one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace spmm::cli {

/// Letters to insert, remove, change or swap with the next one to make one word of the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known word that other programs call `word`, else the nearest one: a third of its letters differ at most, or it
/// is the only one that starts with `word` (of three letters or more). "" if there is none.
std::string nearest_word(const std::string& word, const std::vector<std::string>& known);

/// ", did you mean X?" with the nearest word after `prefix`, or "".
std::string suggestion(const std::string& word, const std::vector<std::string>& known, const std::string& prefix = "");

}  // namespace spmm::cli
