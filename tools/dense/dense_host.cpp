#include "tools/dense/dense_host.hpp"

#include "tools/dense/dense_elements.hpp"

namespace spmm::dense {
namespace {

template <class E>
void multiply_rows(Shape shape, std::span<const std::byte> a, std::span<const std::byte> b, std::span<std::byte> c) {
  using In = typename E::In;
  using Sum = typename E::Sum;
  const std::size_t inner = shape.inner;
  const std::size_t cols = shape.cols;
  for (std::size_t i = 0; i < shape.rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      Sum sum = 0;
      for (std::size_t k = 0; k < inner; ++k) {
        sum += static_cast<Sum>(load<In>(a, i * inner + k)) * static_cast<Sum>(load<In>(b, k * cols + j));
      }
      store(c, i * cols + j, E::finish(sum));
    }
  }
}

}  // namespace

void multiply_host_naive(Type type, Shape shape, std::span<const std::byte> a, std::span<const std::byte> b,
                         std::span<std::byte> c) {
  for_elements(type, [&]<class E>(E) { multiply_rows<E>(shape, a, b, c); });
}

}  // namespace spmm::dense
