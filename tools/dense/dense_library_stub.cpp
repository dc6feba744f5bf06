// Linked instead of the library's products where cuBLAS was not found.
#include "spmm/error.hpp"
#include "tools/dense/dense_library.hpp"

namespace spmm::dense {

std::vector<Type> library_types() {
  return {};
}

std::unique_ptr<Product> make_library_product(const ProductInput&) {
  throw DeviceError("kernel library", "this program was built without cuBLAS",
                    "install it with the CUDA toolkit and build again, or use another kernel");
}

}  // namespace spmm::dense
