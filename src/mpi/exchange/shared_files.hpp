// Input files that every rank can read for itself.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "mpi/exchange/agreement.hpp"
#include "mpi/exchange/communicator.hpp"
#include "spmm/stream.hpp"

namespace spmm::mpi {

/// Whether all ranks are on one machine and have opened the same files: their pages are in its memory, so that reading
/// takes less time than messages. A file that was changed just now does not count. Policy::may_read_files may
/// say no.
class SharedFiles {
 public:
  /// Each rank opens the paths itself: on a node without the shared file system they may be other files. Unless they
  /// are the same files of one machine, headers and some records are compared. Collective.
  /// Errors: AgreedFailure (InputError if a rank sees another matrix than rank 0).
  SharedFiles(const Communicator& ranks, const Stages& stages, const Source& a, const Source& b);

  [[nodiscard]] bool are_shared() const { return are_shared_; }
  /// After the last read, for what ranks read at different times. Errors: FormatError where a shared file was changed.
  void check_unchanged() const;

 private:
  std::array<const Source*, 2> sources_;
  std::array<std::optional<SourceIdentity>, 2> identities_;
  bool are_shared_ = false;
};

}  // namespace spmm::mpi
