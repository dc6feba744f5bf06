// Whether all ranks see the same input files.
#include "mpi/exchange/shared_files.hpp"

#include <algorithm>
#include <string>

#include "base/memory/aligned_array.hpp"
#include "base/text.hpp"
#include "spmm/error.hpp"

namespace spmm::mpi {
namespace {

void add(Bytes& bytes, const SourceIdentity& identity) {
  const std::array<std::uint64_t, 5> words = {identity.device, identity.inode, identity.bytes,
                                              static_cast<std::uint64_t>(identity.modified_ns),
                                              static_cast<std::uint64_t>(identity.changed_ns)};
  const auto* const first = reinterpret_cast<const std::byte*>(words.data());
  bytes.insert(bytes.end(), first, first + sizeof words);
}

/// Header and a digest (FNV-1a) of some records, the first and the last among them.
std::string description_of(const Source& source) {
  constexpr std::uint64_t kNumRecords = 16;
  const MatrixHeader& h = source.header();
  const AlignedArray<std::byte> record(input_record_bytes(h.m));
  const std::uint64_t count = std::min<std::uint64_t>(kNumRecords, h.num_blocks);
  std::uint64_t digest = 14695981039346656037u;
  for (std::uint64_t r = 0; r < count; ++r) {
    source.read((h.num_blocks - std::uint64_t{1}) * r / std::max<std::uint64_t>(1, count - 1), 1, record.data());
    for (const std::byte byte : record) digest = (digest ^ static_cast<std::uint64_t>(byte)) * 1099511628211u;
  }
  return text("n ", h.n, ", m ", h.m, ", ", h.num_blocks, " blocks with digest ", digest);
}

}  // namespace

SharedFiles::SharedFiles(const Communicator& ranks, const Stages& stages, const Source& a, const Source& b)
    : sources_{&a, &b} {
  stages.run([&] { identities_ = {a.identity(), b.identity()}; });
  Bytes own;
  if (ranks.local_size() == ranks.size() && identities_[0] && identities_[1]) {
    add(own, *identities_[0]);
    add(own, *identities_[1]);
  }
  bool are_same = !own.empty();
  for (const Bytes& other : ranks.gather(own)) are_same = are_same && other == own;
  are_shared_ = are_same && ranks.policy().may_read_files;
  if (are_same) return;
  for (const Source* const source : sources_) {
    std::string found;
    stages.run([&] { found = description_of(*source); });
    const std::string other = difference(ranks, found);
    stages.run([&] {
      if (!other.empty()) throw InputError(source->name(), other, "give paths on a file system that all nodes share");
    });
  }
}

void SharedFiles::check_unchanged() const {
  if (!are_shared_) return;
  for (std::size_t x = 0; x < sources_.size(); ++x) {
    if (sources_[x]->identity() == identities_[x]) continue;
    throw FormatError(sources_[x]->name(), "the file was changed while it was read",
                      "run again once nothing writes it, or give a copy");
  }
}

}  // namespace spmm::mpi
