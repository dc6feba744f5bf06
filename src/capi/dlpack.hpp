// Arrays of results for other libraries of the same process, by DLPack.
#pragma once

#include <memory>

#include "spmm/spmm.h"

namespace spmm::capi {

/// A managed tensor of DLPack, version 1.0 or older; its deleter frees it and lets the owner go. Errors: UsageError.
void* make_dlpack(const spmm_array& array, std::shared_ptr<const void> owner, bool is_versioned);

/// Calls the deleter of a capsule's tensor that was not taken. Python is found in the process; it may have an
/// exception set.
void destroy_capsule(void* capsule);

}  // namespace spmm::capi
