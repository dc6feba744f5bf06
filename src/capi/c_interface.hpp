// What the functions of the C interface share: structs of any version as options and views of the library, errors as
// statuses, arrays for other libraries.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>

#include "spmm/arrays.hpp"
#include "spmm/error.hpp"
#include "spmm/options.hpp"
#include "spmm/spmm.h"

struct spmm_cancel {
  std::atomic<bool> flag{false};
};

namespace spmm::capi {

/// A struct as this version knows it: fields that the caller's version lacks are zero.
/// Errors: UsageError where struct_size is not set, or the caller sets a field that is not known here.
template <class Struct>
Struct known_fields(const Struct* given, const char* name) {
  Struct known{};
  if (given == nullptr) return known;
  const std::uint64_t size = given->struct_size;
  if (size < sizeof size || size > (std::uint64_t{1} << 16)) {
    throw UsageError(name, "struct_size is not set", "set the struct to zero and struct_size to its sizeof");
  }
  if (size == sizeof known) return *given;  // there may be 10^5 of them
  std::memcpy(&known, given, std::min<std::uint64_t>(size, sizeof known));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  if (size > sizeof known && std::any_of(bytes + sizeof known, bytes + size, [](unsigned char b) { return b != 0; })) {
    throw UsageError(name, "has fields that this version of the library does not know", "load a newer library");
  }
  return known;
}

/// Errors: UsageError if a pointer that must be given is null.
template <class T>
const T& required(const T* pointer, const char* name) {
  if (pointer == nullptr) throw UsageError(name, "is NULL", "give it");
  return *pointer;
}

EngineOptions engine_options(const spmm_engine_options* given);

/// Options of one product, and the flag that a progress function sets if the caller has none.
class ProductCall {
 public:
  /// Errors: UsageError.
  explicit ProductCall(const spmm_product_options* given);
  ProductCall(const ProductCall&) = delete;
  ProductCall& operator=(const ProductCall&) = delete;

  [[nodiscard]] const ProductOptions& options() const { return options_; }
  /// As the caller gave them. Values: all that this version knows.
  [[nodiscard]] const spmm_product_options& given() const { return given_; }
  /// Of files alone.
  void read_pattern() {
    if (given_.pattern != nullptr) options_.pattern = given_.pattern;
  }
  /// Of all products but those of host arrays. Errors: UsageError if something is to be added.
  void check_nothing_added() const;

 private:
  spmm_cancel own_;
  spmm_product_options given_;
  ProductOptions options_;
};

/// The caller's arrays. Values: is_pattern = without data. Errors: UsageError (widths, null pointers).
template <class T>
BsrView<T> bsr_view(const spmm_bsr& given, const std::string& name, bool is_pattern = false);

/// Errors: UsageError.
ElementType element_type(std::uint32_t given, const std::string& name);

/// Width of the elements of a matrix: 16 or 32. Errors: UsageError.
std::uint32_t element_bits(const spmm_bsr& given, const std::string& name);

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

/// A managed tensor of DLPack, version 1.0 or older; its deleter frees it and lets the owner go. Errors: UsageError.
void* make_dlpack(const spmm_array& array, std::shared_ptr<const void> owner, bool is_versioned);

/// Calls the deleter of a capsule's tensor that was not taken. Python is found in the process; it may have an
/// exception set.
void destroy_capsule(void* capsule);

}  // namespace spmm::capi
