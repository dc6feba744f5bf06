// Status codes and the texts of the last error of each thread.
#include "capi/c_interface.hpp"

#include <array>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "spmm/error.hpp"

namespace spmm::capi {
namespace {

/// Of one thread. If there is no memory for the texts, `status` stands alone.
struct LastError {
  spmm_status status = SPMM_OK;
  std::string text;
  std::string place;
  std::string problem;
  std::string hint;
};

LastError& last_error() {
  thread_local LastError error;
  return error;
}

/// Messages name the options of the C++ interface; the fields have the same names here.
std::string c_words(std::string_view message) {
  std::string out(message);
  for (const std::string_view prefix : {"EngineOptions::", "ProductOptions::"}) {
    for (std::size_t at = out.find(prefix); at != std::string::npos; at = out.find(prefix, at)) {
      out.erase(at, prefix.size());
    }
  }
  return out;
}

spmm_status keep(spmm_status status, std::string_view place, std::string_view problem, std::string_view hint) noexcept {
  LastError& last = last_error();
  last.status = status;
  for (std::string* text : {&last.text, &last.place, &last.problem, &last.hint}) text->clear();
  try {
    last.place = c_words(place);
    last.problem = c_words(problem);
    last.hint = c_words(hint);
    last.text = last.place + ": " + last.problem + "; " + last.hint;
  } catch (const std::bad_alloc&) {
  }
  return status;
}

static_assert(static_cast<int>(ErrorKind::usage) == SPMM_ERROR_USAGE);
static_assert(static_cast<int>(ErrorKind::device) == SPMM_ERROR_DEVICE);
static_assert(static_cast<int>(ErrorKind::saturated) == SPMM_ERROR_SATURATED);

}  // namespace

spmm_status keep_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return keep(static_cast<spmm_status>(e.kind()), e.where(), e.problem(), e.hint());
  } catch (const std::bad_alloc&) {
    return keep(SPMM_ERROR_OUT_OF_MEMORY, "memory", "the system has no more",
                "free memory, or lower memory_limit_bytes");
  } catch (const std::exception& e) {
    return keep(SPMM_ERROR_INTERNAL, "spmm", e.what(), "please report this as a bug");
  } catch (...) {
    return keep(SPMM_ERROR_INTERNAL, "spmm", "unknown exception", "please report this as a bug");
  }
}

}  // namespace spmm::capi

extern "C" {

spmm_status spmm_last_error_status(void) {
  return spmm::capi::last_error().status;
}
const char* spmm_last_error_text(void) {
  return spmm::capi::last_error().text.c_str();
}
const char* spmm_last_error_place(void) {
  return spmm::capi::last_error().place.c_str();
}
const char* spmm_last_error_problem(void) {
  return spmm::capi::last_error().problem.c_str();
}
const char* spmm_last_error_hint(void) {
  return spmm::capi::last_error().hint.c_str();
}

}  // extern "C"
