// Fresh keys, and columns of X as tables.
#include "verify/sums/random_columns.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "spmm/error.hpp"

namespace spmm {

std::uint64_t fresh_proof_key() {
  std::uint64_t key = 0;
  while (true) {
    const ssize_t got = ::getrandom(&key, sizeof key, 0);
    if (got == static_cast<ssize_t>(sizeof key)) return key;
    if (got >= 0 || errno == EINTR) continue;
    throw IoError("getrandom", std::strerror(errno), "give a key of your own with ProductOptions::proof_key");
  }
}

RandomVectors::RandomVectors(const RandomColumns& columns, std::uint32_t q, std::uint64_t n, std::uint32_t m,
                             bool is_table, const Run& run)
    : columns_(columns), q_(q), m_(m) {
  if (!is_table) return;
  constexpr std::uint64_t kGrain = 1u << 16;
  table_ = AlignedArray<std::uint64_t>(n);
  run.parallel_for(n, kGrain, [&](std::uint64_t begin, std::uint64_t end) {
    run.check_cancelled();
    columns_.fill(begin, end - begin, q_, table_.data() + begin);
  });
}

}  // namespace spmm
