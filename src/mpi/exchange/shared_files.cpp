// Whether all ranks see the same input files.
#include "mpi/exchange/shared_files.hpp"

#include <cstring>

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

}  // namespace

void check_same_headers(const Communicator& ranks, const Stages& stages, const Source& a, const Source& b) {
  std::vector<bool> same;
  for (const Source* const source : {&a, &b}) {
    const MatrixHeader& h = source->header();
    const std::uint64_t shape = std::uint64_t{h.n} << 8 | h.m;  // m is at most 64
    same.push_back(ranks.max(shape) == ranks.min(shape) && ranks.max(h.num_blocks) == ranks.min(h.num_blocks));
  }
  stages.run([&] {
    if (same[0] && same[1]) return;
    throw InputError((same[0] ? b : a).name(), "the ranks see files with different headers",
                     "give paths on a file system that all nodes share");
  });
}

SharedFiles::SharedFiles(const Communicator& ranks, const Stages& stages, const Source& a, const Source& b)
    : sources_{&a, &b} {
  stages.run([&] { identities_ = {a.identity(), b.identity()}; });
  const bool may = ranks.local_size() == ranks.size() && ranks.policy().may_read_files;
  Bytes own;
  if (may && identities_[0] && identities_[1]) {
    add(own, *identities_[0]);
    add(own, *identities_[1]);
  }
  are_shared_ = !own.empty();
  for (const Bytes& other : ranks.gather(own)) are_shared_ = are_shared_ && other == own;
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
