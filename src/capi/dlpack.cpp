// DLPack's structs as its specification has them, and the deleters of ours.
#include "capi/c_interface.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <utility>

#include "spmm/error.hpp"

namespace spmm::capi {
namespace {

/// DLTensor.
struct Tensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device;
  std::int32_t num_dimensions;
  std::uint8_t type_code;
  std::uint8_t type_bits;
  std::uint16_t type_lanes;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

/// DLManagedTensor.
struct Managed {
  Tensor tensor{};
  void* context = nullptr;
  void (*deleter)(Managed*) = nullptr;
};

/// DLManagedTensorVersioned.
struct VersionedManaged {
  std::uint32_t major = 1;
  std::uint32_t minor = 0;
  void* context = nullptr;
  void (*deleter)(VersionedManaged*) = nullptr;
  std::uint64_t flags = 0;
  Tensor tensor{};
};

static_assert(sizeof(Tensor) == 48 && sizeof(Managed) == 64 && sizeof(VersionedManaged) == 80);

/// What a consumer holds a pointer to, and what its pointers point to.
template <class Kind>
struct Shared {
  Kind managed{};
  std::array<std::int64_t, 3> shape{};
  std::array<std::int64_t, 3> strides{};
  std::shared_ptr<const void> owner{};
};

template <class Kind>
void* make(const spmm_array& array, std::shared_ptr<const void> owner) {
  auto made = std::make_unique<Shared<Kind>>();
  std::int64_t stride = 1;
  for (int x = array.num_dimensions - 1; x >= 0; --x) {
    const auto at = static_cast<std::size_t>(x);
    made->shape[at] = array.shape[at];
    made->strides[at] = stride;
    stride *= array.shape[at];
  }
  made->owner = std::move(owner);
  made->managed.tensor = {.data = array.data,
                          .device_type = array.device_type,
                          .device = array.device,
                          .num_dimensions = array.num_dimensions,
                          .type_code = static_cast<std::uint8_t>(array.is_unsigned),
                          .type_bits = static_cast<std::uint8_t>(array.element_bits),
                          .type_lanes = 1,
                          .shape = made->shape.data(),
                          .strides = made->strides.data(),
                          .byte_offset = 0};
  made->managed.context = made.get();
  made->managed.deleter = [](Kind* self) { delete static_cast<Shared<Kind>*>(self->context); };
  return &made.release()->managed;
}

}  // namespace

void* make_dlpack(const spmm_array& array, std::shared_ptr<const void> owner, bool is_versioned) {
  const int bits = array.element_bits;
  const bool is_sound =
      array.num_dimensions >= 1 && array.num_dimensions <= 3 && (bits == 8 || bits == 16 || bits == 32 || bits == 64);
  if (!is_sound || array.is_unsigned < 0 || array.is_unsigned > 2) {
    throw UsageError("spmm_array", "num_dimensions, element_bits or is_unsigned",
                     "use 1 to 3; 8, 16, 32 or 64; 0 to 2");
  }
  return is_versioned ? make<VersionedManaged>(array, std::move(owner)) : make<Managed>(array, std::move(owner));
}

void destroy_capsule(void* capsule) {
  const auto is_valid = reinterpret_cast<int (*)(void*, const char*)>(dlsym(RTLD_DEFAULT, "PyCapsule_IsValid"));
  const auto pointer_of = reinterpret_cast<void* (*)(void*, const char*)>(dlsym(RTLD_DEFAULT, "PyCapsule_GetPointer"));
  if (is_valid == nullptr || pointer_of == nullptr) return;
  const auto destroy = [&]<class Kind>(const char* name, Kind*) {
    if (is_valid(capsule, name) == 0) return;  // its consumer has renamed it
    auto* const managed = static_cast<Kind*>(pointer_of(capsule, name));
    managed->deleter(managed);
  };
  destroy("dltensor", static_cast<Managed*>(nullptr));
  destroy("dltensor_versioned", static_cast<VersionedManaged*>(nullptr));
}

}  // namespace spmm::capi
