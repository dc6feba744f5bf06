// Exceptions become a status and the texts of spmm_last_error_*().
#pragma once

#include "spmm/spmm.h"

namespace spmm::capi {

/// Keeps the exception that is being handled as the last error of this thread; returns its status.
spmm_status keep_current_exception() noexcept;

/// Runs body; whatever it throws becomes the last error.
template <class Body>
spmm_status guarded(const Body& body) noexcept {
  try {
    body();
    return SPMM_OK;
  } catch (...) {
    return keep_current_exception();
  }
}

}  // namespace spmm::capi
