// Records of side 1 for AVX-512.
// Included within the region for the instruction set of a file: everything here is internal to that file.
#pragma once

namespace spmm::cpu {
namespace {

/// Elements of a row of C that are not 0, side by side, on their way to records.
class ElementStage {
 public:
  ElementStage(std::uint32_t row, std::byte* out) : row_(_mm512_set1_epi32(static_cast<int>(row))), out_(out) {}

  void add(__m512i columns, __m512i sums, __mmask16 lanes) {
    _mm512_storeu_si512(columns_ + count_, _mm512_maskz_compress_epi32(lanes, columns));
    _mm512_storeu_si512(sums_ + count_, _mm512_maskz_compress_epi32(lanes, sums));
    count_ += static_cast<std::uint32_t>(std::popcount(static_cast<unsigned>(lanes)));
    if (count_ >= kElements) write_full();
  }

  /// Returns the end of the records.
  std::byte* finish() {
    write_full();
    const std::uint32_t words = 3 * count_;
    for (std::uint32_t part = 0; part * kLanes < words; ++part) {
      const std::uint32_t here = words - part * kLanes;
      const auto mask = static_cast<__mmask16>(here >= kLanes ? 0xFFFFu : (1u << here) - 1);
      _mm512_mask_storeu_epi32(out_ + part * sizeof(__m512i), mask, deal(0, part));
    }
    return out_ + words * sizeof(std::uint32_t);
  }

 private:
  static constexpr std::uint32_t kLanes = 16;
  static constexpr std::uint32_t kElements = 256;

  /// Vector `part` of three: words of the row, of columns (0 to 15) and of sums (from 16 on) in turns.
  [[nodiscard]] __m512i deal(std::uint32_t first, std::uint32_t part) const {
    static constexpr std::uint16_t kMasks[3] = {0b0110'1101'1011'0110, 0b1011'0110'1101'1011, 0b1101'1011'0110'1101};
    alignas(64) static constexpr std::uint32_t kOrders[3][kLanes] = {
        {0, 0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0},
        {5, 21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10},
        {26, 0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31}};
    const __mmask16 words = kMasks[part];
    const __m512i order = _mm512_mask_mov_epi32(row_, words, _mm512_load_si512(kOrders[part]));
    return _mm512_mask2_permutex2var_epi32(_mm512_loadu_si512(columns_ + first), order, words,
                                           _mm512_loadu_si512(sums_ + first));
  }

  /// Whole vectors of records; the rest moves to the front.
  void write_full() {
    std::uint32_t first = 0;
    for (; first + kLanes <= count_; first += kLanes) {
      for (std::uint32_t part = 0; part < 3; ++part, out_ += sizeof(__m512i)) {
        _mm512_storeu_si512(out_, deal(first, part));
      }
    }
    _mm512_storeu_si512(columns_, _mm512_loadu_si512(columns_ + first));
    _mm512_storeu_si512(sums_, _mm512_loadu_si512(sums_ + first));
    count_ -= first;
  }

  alignas(64) std::uint32_t columns_[kElements + 2 * kLanes];
  alignas(64) std::uint32_t sums_[kElements + 2 * kLanes];
  std::uint32_t count_ = 0;
  __m512i row_;
  std::byte* out_;
};

}  // namespace
}  // namespace spmm::cpu
