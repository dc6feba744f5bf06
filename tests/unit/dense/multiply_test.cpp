// The door of the dense products: what a request is refused for, and products without terms.
#include <cstddef>
#include <string>
#include <vector>

#include "spmm/error.hpp"
#include "support/catch.hpp"
#include "tools/dense/dense_multiply.hpp"

namespace {

using namespace spmm;
using dense::Shape;
using dense::Type;

/// Matrices of the right size, C full of sevens.
struct Sides {
  std::vector<std::byte> a;
  std::vector<std::byte> b;
  std::vector<std::byte> c;
};

Sides sides_of(Type type, Shape shape) {
  const std::size_t in = dense::input_element_bytes(type);
  return {.a = std::vector<std::byte>(std::size_t{shape.rows} * shape.inner * in),
          .b = std::vector<std::byte>(std::size_t{shape.inner} * shape.cols * in),
          .c = std::vector<std::byte>(std::size_t{shape.rows} * shape.cols * dense::output_element_bytes(type),
                                      std::byte{7})};
}

dense::Request host_request(Type type, Shape shape) {
  return {.kernel = "host-naive", .type = type, .tile = 0, .shape = shape, .runs = 1};
}

constexpr Shape kSmall{.rows = 3, .inner = 4, .cols = 5};

}  // namespace

TEST_CASE("dense request: kernels and tiles that do not exist are refused with what does", "[dense][multiply]") {
  Sides sides = sides_of(Type::f32, kSmall);
  dense::Request request = host_request(Type::f32, kSmall);
  request.kernel = "fastest";
  std::string message;
  try {
    multiply(request, sides.a, sides.b, sides.c);
  } catch (const UsageError& error) {
    message = error.what();
  }
  CHECK(message.find("\"fastest\"; use some of: all, host-naive") != std::string::npos);
  for (const dense::KernelInfo& kernel : dense::kernels()) {
    request.kernel = kernel.name;
    request.tile = 7;
    if (!kernel.tiles.empty()) CHECK_THROWS_AS(multiply(request, sides.a, sides.b, sides.c), UsageError);
  }
  request.kernel = "host-naive";  // has no tiles: the width means nothing to it
  CHECK_NOTHROW(multiply(request, sides.a, sides.b, sides.c));
}

TEST_CASE("dense request: matrices of the wrong size are refused", "[dense][multiply]") {
  for (const Type type : {Type::i32, Type::f32, Type::u16}) {
    const dense::Request request = host_request(type, kSmall);
    for (int matrix = 0; matrix < 3; ++matrix) {
      for (const bool longer : {false, true}) {
        Sides sides = sides_of(type, kSmall);
        std::vector<std::byte>& wrong = matrix == 0 ? sides.a : matrix == 1 ? sides.b : sides.c;
        wrong.resize(longer ? wrong.size() + 1 : wrong.size() - 1);
        CHECK_THROWS_AS(multiply(request, sides.a, sides.b, sides.c), ShapeError);
      }
    }
  }
}

TEST_CASE("dense request: products without terms are zero", "[dense][multiply]") {
  for (const dense::KernelInfo& kernel : dense::kernels()) {  // needs no device
    for (const Shape shape : {Shape{5, 0, 7}, Shape{0, 4, 7}, Shape{5, 4, 0}, Shape{0, 0, 0}}) {
      Sides sides = sides_of(Type::u16, shape);
      dense::Request request = host_request(Type::u16, shape);
      request.kernel = kernel.name;
      request.runs = 2;
      const dense::Measurement measurement = multiply(request, sides.a, sides.b, sides.c);
      CHECK(measurement.run_ms == std::vector<double>{0, 0});
      CHECK(sides.c == std::vector<std::byte>(sides.c.size(), std::byte{0}));
    }
  }
}
