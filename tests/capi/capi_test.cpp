// The C interface from C++: random products against the oracle, versions of structs, engines under a limit, threads.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "spmm/engine.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "spmm/spmm.h"
#include "support/catch.hpp"
#include "support/matrices.hpp"
#include "support/oracle.hpp"
#include "support/process.hpp"
#include "test_paths.hpp"

namespace {

using namespace spmm;

struct Destroy {
  void operator()(spmm_engine* engine) const { spmm_engine_destroy(engine); }
  void operator()(spmm_matrix* matrix) const { spmm_matrix_destroy(matrix); }
  void operator()(spmm_device_matrix* matrix) const { spmm_device_matrix_destroy(matrix); }
  void operator()(spmm_report* report) const { spmm_report_destroy(report); }
};
template <class T>
using Handle = std::unique_ptr<T, Destroy>;

template <class T>
T sized() {
  T value{};
  value.struct_size = sizeof value;
  return value;
}

Handle<spmm_engine> make_engine(std::uint64_t memory_limit_bytes = 0) {
  auto options = sized<spmm_engine_options>();
  options.num_threads = 2;
  options.memory_limit_bytes = memory_limit_bytes;
  spmm_engine* engine = nullptr;
  REQUIRE(spmm_engine_create(&options, &engine) == SPMM_OK);
  return Handle<spmm_engine>(engine);
}

spmm_product_options on_cpu() {
  auto options = sized<spmm_product_options>();
  options.backend = "cpu";
  return options;
}

spmm_blocks as_blocks(const BlockMatrix& matrix) {
  auto blocks = sized<spmm_blocks>();
  blocks.n = matrix.n;
  blocks.block_side = matrix.m;
  blocks.num_blocks = matrix.index.size();
  blocks.index = reinterpret_cast<const std::uint32_t*>(matrix.index.data());
  blocks.values = matrix.values.data();
  return blocks;
}

ProductMatrix as_product(const spmm_matrix* matrix) {
  ProductMatrix product{.n = static_cast<std::uint32_t>(spmm_matrix_rows(matrix)),
                        .m = spmm_matrix_block_side(matrix),
                        .index = {},
                        .values = {}};
  const auto* const data = static_cast<const std::uint32_t*>(spmm_matrix_data(matrix));
  const std::uint64_t num_blocks = spmm_matrix_num_blocks(matrix);
  product.values.assign(data, data + num_blocks * product.m * product.m);
  for (std::uint32_t row = 0; row < product.n / product.m; ++row) {
    for (auto b = spmm_matrix_indptr(matrix)[row]; b < spmm_matrix_indptr(matrix)[row + 1]; ++b) {
      product.index.push_back({row, static_cast<std::uint32_t>(spmm_matrix_indices(matrix)[b])});
    }
  }
  return product;
}

/// "/plan/candidates/-/kernel" of every value; items of an array are one.
void add_keys(const nlohmann::json& json, const std::string& path, std::set<std::string>& keys) {
  if (!json.is_structured() || json.empty()) {
    keys.insert(path);
    return;
  }
  for (const auto& [key, value] : json.items()) add_keys(value, path + "/" + (json.is_array() ? "-" : key), keys);
}

std::set<std::string> key_set(const nlohmann::json& json) {
  std::set<std::string> keys;
  for (const auto& [key, value] : json.items()) add_keys(value, key, keys);
  keys.erase("command");  // an empty list, and one of words
  keys.erase("command/-");
  return keys;
}

}  // namespace

TEST_CASE("products through the C interface equal the oracle, from several threads on one engine") {
  const Handle<spmm_engine> engine = make_engine();
  const auto work = [&](std::uint32_t seed, std::atomic<int>& num_equal) {
    for (const std::uint32_t m : {1u, 4u, 7u}) {
      const BlockMatrix a = test::random_matrix(10 * m, m, 40, 65535, seed + m);
      const BlockMatrix b = test::random_matrix(10 * m, m, 40, 65535, seed + m + 100);
      const spmm_blocks given_a = as_blocks(a);
      const spmm_blocks given_b = as_blocks(b);
      const spmm_product_options options = on_cpu();
      spmm_matrix* c = nullptr;
      if (spmm_multiply_blocks(engine.get(), &given_a, &given_b, &options, &c, nullptr) != SPMM_OK) continue;
      num_equal += as_product(Handle<spmm_matrix>(c).get()) == test::oracle_multiply(a, b) ? 1 : 0;
    }
  };
  std::atomic<int> num_equal{0};
  {
    const std::jthread second([&] { work(1000, num_equal); });
    work(2000, num_equal);
  }
  CHECK(num_equal == 6);
}

TEST_CASE("the report of files is that of spmm --report") {
  const test::TemporaryFolder folder;
  const Handle<spmm_engine> engine = make_engine();
  const std::string a =
      folder.file("\xC3\xA4 \"\xF0\x9F\xA7\xAE\xC3");  // UTF-8 of two and four bytes, and a piece of one
  const std::string b = folder.file("b");
  const std::string c = folder.file("c");
  write_matrix(a, test::random_matrix(80, 8, 30, 100, 1));
  write_matrix(b, test::random_matrix(80, 8, 30, 100, 2));
  for (const bool has_all : {false, true}) {
    std::vector<std::string> command = {SPMM_BIN_DIR "/spmm", "-q", "--backend", "cpu", "--report",
                                        folder.file("r.json")};
    if (has_all) {
      command.insert(command.end(), {"--verify", "full", "--transpose-a", "--triangle", "upper", "--no-diagonal",
                                     "--at-least", "9000", "--keep", "7"});
    }
    command.insert(command.end(), {a, b, c});
    std::filesystem::remove_all(c);
    REQUIRE(test::run_process(command).exit_code == 0);
    std::ifstream file(folder.file("r.json"));
    auto expected = nlohmann::json::parse(file);

    spmm_product_options options = on_cpu();
    options.verify_full = options.transpose_a = options.upper_triangle = options.no_diagonal = has_all ? 1 : 0;
    options.at_least = has_all ? 9000 : 0;
    options.keep = has_all ? 7 : 0;
    spmm_report* made = nullptr;
    REQUIRE(spmm_multiply_files(engine.get(), a.c_str(), b.c_str(), c.c_str(), &options, &made) == SPMM_OK);
    const Handle<spmm_report> report(made);
    const auto found = nlohmann::json::parse(spmm_report_json(made));
    CHECK(key_set(found) == key_set(expected));
    for (const char* same : {"a", "b", "c", "pairs", "schema", "verified_blocks", "dropped_elements"})
      CHECK(found[same] == expected[same]);
    CHECK((found["dropped_elements"] > 1000) == has_all);
    CHECK(found["command"].empty());
    CHECK(found["pairs"] == spmm_report_num_pairs(made));
    CHECK(found["kernel"] == spmm_report_kernel(made));
    CHECK(found["total_s"].get<double>() == spmm_report_seconds(made));
    CHECK(found["version"] == spmm_version());
  }
}

TEST_CASE("indices of 32 bits are copied all or not at all") {
  constexpr std::uint64_t kCols = 3'000'000'000;
  const std::array<std::int64_t, 2> indptr_a = {0, 1};
  const std::array<std::int64_t, 2> indptr_b = {0, 2};
  const std::array<std::int64_t, 2> indices = {0, kCols - 1};
  const std::array<std::uint16_t, 2> data = {3, 5};
  auto a = sized<spmm_bsr>();
  a.rows = a.cols = a.block_side = 1;
  a.num_indices = 1;
  a.indptr = indptr_a.data();
  a.indices = indices.data();
  a.data = data.data();
  spmm_bsr b = a;
  b.cols = kCols;
  b.num_indices = 2;
  b.indptr = indptr_b.data();
  const Handle<spmm_engine> engine = make_engine();
  const spmm_product_options options = on_cpu();
  spmm_matrix* c = nullptr;
  REQUIRE(spmm_multiply_bsr(engine.get(), &a, &b, &options, &c, nullptr) == SPMM_OK);
  const Handle<spmm_matrix> owner(c);
  REQUIRE(spmm_matrix_num_blocks(c) == 2);
  std::array<std::int32_t, 2> copy = {-7, -7};
  CHECK(spmm_matrix_copy_indices32(c, copy.data()) == SPMM_ERROR_USAGE);
  CHECK(test::has(spmm_last_error_text(), "matrix: 2999999999 "));
  CHECK(copy == std::array<std::int32_t, 2>{-7, -7});
  CHECK(spmm_matrix_copy_indptr32(c, copy.data()) == SPMM_OK);
  CHECK(copy == std::array<std::int32_t, 2>{0, 2});
  CHECK(spmm_matrix_copy_indices32(c, nullptr) == SPMM_ERROR_USAGE);
  CHECK(spmm_matrix_copy_indptr32(nullptr, copy.data()) == SPMM_ERROR_USAGE);
  CHECK(spmm_matrix_copy_indices32(nullptr, copy.data()) == SPMM_ERROR_USAGE);
  CHECK(std::string(spmm_last_error_text()) == "matrix: is NULL; give it");
}

TEST_CASE("structs of older and newer callers") {
  struct Longer {
    spmm_engine_options options;
    std::uint64_t newer;
  } longer{};
  longer.options.struct_size = sizeof longer;
  spmm_engine* engine = nullptr;
  REQUIRE(spmm_engine_create(&longer.options, &engine) == SPMM_OK);
  spmm_engine_destroy(engine);
  engine = nullptr;
  longer.newer = 1;
  CHECK(spmm_engine_create(&longer.options, &engine) == SPMM_ERROR_USAGE);
  CHECK(engine == nullptr);
  // One that ends before the memory limit: what follows it is not read.
  auto shorter = sized<spmm_engine_options>();
  shorter.struct_size = offsetof(spmm_engine_options, memory_limit_bytes);
  shorter.memory_limit_bytes = 1;
  REQUIRE(spmm_engine_create(&shorter, &engine) == SPMM_OK);
  const Handle<spmm_engine> owner(engine);
  const BlockMatrix a = test::random_matrix(80, 8, 30, 100, 1);
  const spmm_blocks given = as_blocks(a);
  const spmm_product_options options = on_cpu();
  spmm_matrix* c = nullptr;
  CHECK(spmm_multiply_blocks(engine, &given, &given, &options, &c, nullptr) == SPMM_OK);
  spmm_matrix_destroy(c);
}

TEST_CASE("element types through the C interface") {
  const Handle<spmm_engine> engine = make_engine();
  const std::int32_t indptr[] = {0, 1};
  const std::int32_t indices[] = {0};
  const float values[] = {0.5F, 1, -2, 4};
  auto a = sized<spmm_bsr>();
  a.rows = a.cols = a.block_side = 2;
  a.indptr = indptr;
  a.indices = indices;
  a.data = values;
  a.num_indices = 1;
  a.indptr_bits = a.indices_bits = 32;
  a.element_type = SPMM_F32;
  const spmm_product_options options = on_cpu();
  spmm_matrix* c = nullptr;
  REQUIRE(spmm_multiply_bsr(engine.get(), &a, &a, &options, &c, nullptr) == SPMM_OK);
  const Handle<spmm_matrix> owner(c);
  CHECK(spmm_matrix_element_type(c) == SPMM_F32);
  CHECK(spmm_matrix_element_bits(c) == 32);
  const auto* const sums = static_cast<const float*>(spmm_matrix_data(c));
  CHECK(std::vector(sums, sums + 4) == std::vector<float>{-1.75F, 4.5F, -9, 14});

  spmm_bsr b = a;
  spmm_matrix* none = nullptr;
  // 2 * A * A - C: in the blocks of C, which lie as those of A.
  const float two = 2;
  const float minus_one = -1;
  spmm_product_options adding = options;
  adding.c = &a;
  adding.alpha = &two;
  adding.beta = &minus_one;
  REQUIRE(spmm_multiply_bsr(engine.get(), &a, &a, &adding, &none, nullptr) == SPMM_OK);
  const auto* const added = static_cast<const float*>(spmm_matrix_data(none));
  for (int x = 0; x < 4; ++x) CHECK(added[x] == 2 * sums[x] - values[x]);
  spmm_matrix_destroy(none);
  b.data = nullptr;
  adding.c = &b;
  CHECK(spmm_multiply_bsr(engine.get(), &a, &a, &adding, &none, nullptr) == SPMM_ERROR_USAGE);
  adding.beta = nullptr;
  adding.is_mask = 1;
  REQUIRE(spmm_multiply_bsr(engine.get(), &a, &a, &adding, &none, nullptr) == SPMM_OK);
  CHECK(static_cast<const float*>(spmm_matrix_data(none))[0] == 2 * sums[0]);
  spmm_matrix_destroy(none);
  b.element_type = SPMM_F64;
  CHECK(spmm_multiply_bsr(engine.get(), &a, &a, &adding, &none, nullptr) == SPMM_ERROR_SHAPE);
  // The saturating product in given blocks.
  const std::uint16_t whole[] = {65535, 65535, 65535, 3};
  spmm_bsr u16 = a;
  u16.element_type = SPMM_U16;
  u16.element_bits = 16;
  u16.data = whole;
  b.element_type = SPMM_U32;
  REQUIRE(spmm_multiply_bsr(engine.get(), &u16, &u16, &adding, &none, nullptr) == SPMM_ERROR_USAGE);  // alpha
  adding.alpha = nullptr;
  REQUIRE(spmm_multiply_bsr(engine.get(), &u16, &u16, &adding, &none, nullptr) == SPMM_OK);
  CHECK(static_cast<const std::uint32_t*>(spmm_matrix_data(none))[0] == 0xFFFFFFFFu);
  spmm_matrix_destroy(none);
  b = a;
  b.element_type = SPMM_I32;
  CHECK(spmm_multiply_bsr(engine.get(), &a, &b, &options, &none, nullptr) == SPMM_ERROR_SHAPE);
  b.element_type = SPMM_I64 + 1;
  CHECK(spmm_multiply_bsr(engine.get(), &a, &b, &options, &none, nullptr) == SPMM_ERROR_USAGE);
  b.element_type = SPMM_F32;
  b.element_bits = 32;
  CHECK(spmm_multiply_bsr(engine.get(), &a, &b, &options, &none, nullptr) == SPMM_ERROR_USAGE);
  // A caller from before: its struct ends before the type, and has elements of 16 bits.
  a.struct_size = offsetof(spmm_bsr, element_type);
  REQUIRE(spmm_multiply_bsr(engine.get(), &a, &a, &options, &none, nullptr) == SPMM_OK);
  CHECK(spmm_matrix_element_type(none) == SPMM_U32);
  spmm_matrix_destroy(none);
}

TEST_CASE("errors belong to the thread that met them") {
  const Handle<spmm_engine> engine = make_engine();
  auto bad = sized<spmm_blocks>();
  bad.n = 3;
  bad.block_side = 2;
  spmm_matrix* c = nullptr;
  CHECK(spmm_multiply_blocks(engine.get(), &bad, &bad, nullptr, &c, nullptr) == SPMM_ERROR_FORMAT);
  spmm_status other = -1;
  {
    const std::jthread second([&] { other = spmm_last_error_status(); });
  }
  CHECK(other == SPMM_OK);
  CHECK(spmm_last_error_status() == SPMM_ERROR_FORMAT);
  CHECK(std::string(spmm_last_error_text()).starts_with("matrix A: matrix side n is 3"));
}

TEST_CASE("what this version does not carry out is refused") {
  const Handle<spmm_engine> engine = make_engine();
  const BlockMatrix a = test::random_matrix(8, 8, 1, 100, 1);
  const spmm_blocks given = as_blocks(a);
  spmm_product_options options = on_cpu();
  spmm_matrix* c = nullptr;
  options.backend = "gpu";
  CHECK(spmm_multiply_blocks(engine.get(), &given, &given, &options, &c, nullptr) == SPMM_ERROR_USAGE);
  CHECK(test::has(spmm_last_error_text(), "backend: 'gpu' is not known; "));
  options = on_cpu();
  options.on_saturation = 9;
  CHECK(spmm_multiply_blocks(engine.get(), &given, &given, &options, &c, nullptr) == SPMM_ERROR_USAGE);
  CHECK(std::string(spmm_last_error_place()) == "on_saturation");
  auto engine_options = sized<spmm_engine_options>();
  const std::int32_t device = -5;
  engine_options.devices = &device;
  engine_options.num_devices = 1;
  spmm_engine* none = nullptr;
  CHECK(spmm_engine_create(&engine_options, &none) == SPMM_ERROR_USAGE);
  CHECK(none == nullptr);
  auto bsr = sized<spmm_bsr>();
  bsr.element_bits = 32;
  CHECK(spmm_multiply_bsr(engine.get(), &bsr, &bsr, nullptr, &c, nullptr) == SPMM_ERROR_USAGE);
  CHECK(std::string(spmm_last_error_place()) == "matrix A, element_bits");
  bsr.element_bits = 0;
  CHECK(spmm_multiply_bsr(engine.get(), &bsr, &bsr, nullptr, &c, nullptr) != SPMM_OK);  // no arrays
}

TEST_CASE("many products in device memory: none of them, sizes of structs") {
  const Handle<spmm_engine> engine = make_engine();
  spmm_device_matrix* made = nullptr;
  REQUIRE(spmm_multiply_many_device(engine.get(), nullptr, 0, nullptr, nullptr, &made, nullptr) == SPMM_OK);
  const Handle<spmm_device_matrix> none(made);
  CHECK(spmm_device_matrix_first_rows(made)[0] == 0);
  CHECK(spmm_device_matrix_first_blocks(made) == nullptr);
  CHECK(spmm_device_matrix_indptrs(made) == nullptr);

  const auto side = [](std::uint64_t rows, std::uint64_t cols) {
    auto matrix = sized<spmm_device_bsr>();
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.block_side = 4;
    return matrix;
  };
  std::vector<spmm_device_pair> products(3, {.a = side(8, 12), .b = side(12, 4)});
  const auto refusal = [&](spmm_status expected) {
    spmm_device_matrix* nothing = nullptr;
    CHECK(spmm_multiply_many_device(engine.get(), products.data(), products.size(), nullptr, nullptr, &nothing,
                                    nullptr) == expected);
    CHECK(nothing == nullptr);
    return std::string(spmm_last_error_place());
  };
  products[2].b.rows = 16;
  CHECK(refusal(SPMM_ERROR_SHAPE) == "matrix A and matrix B, product 2");
  products[1].a.struct_size -= 8;
  CHECK(refusal(SPMM_ERROR_USAGE) == "products");
}

TEST_CASE("stacks and plans in device memory: fields of structs, and no device") {
  const Handle<spmm_engine> engine = make_engine();
  auto matrix = sized<spmm_device_bsr>();
  matrix.rows = matrix.cols = 8;
  matrix.block_side = 4;
  auto stacks = sized<spmm_device_stacks>();
  stacks.a = stacks.b = &matrix;
  stacks.num_products = 3;
  auto options = sized<spmm_product_options>();
  spmm_device_matrix* made = nullptr;
  spmm_device_plan* plan = nullptr;
  const auto check = [&](spmm_status status) {
    CHECK(spmm_multiply_stacks_device(engine.get(), &stacks, nullptr, &options, &made, nullptr) == status);
    CHECK(spmm_plan_device(engine.get(), &matrix, &matrix, nullptr, &options, &plan) == status);
    CHECK((made == nullptr && plan == nullptr));
  };
  matrix.index_bits = 16;
  check(SPMM_ERROR_USAGE);
  matrix.index_bits = 32;
  const double two = 2;
  options.alpha = &two;  // is for host arrays
  check(SPMM_ERROR_USAGE);
  options.alpha = nullptr;
  if (spmm_has_cuda_device() == 0) check(SPMM_ERROR_DEVICE);
  spmm_device_plan_destroy(plan);
}

TEST_CASE("memory of the caller for products in device memory: what is missing, and callers from before it") {
  const auto engine = make_engine();
  auto matrix = sized<spmm_device_bsr>();
  matrix.rows = matrix.cols = 8;
  matrix.block_side = 4;
  const auto status = [&](const spmm_device_call& call) {
    spmm_device_matrix* nothing = nullptr;
    const spmm_status found = spmm_multiply_device(engine.get(), &matrix, &matrix, &call, nullptr, &nothing, nullptr);
    CHECK(nothing == nullptr);
    return found;
  };
  auto call = sized<spmm_device_call>();
  call.serves_workspace = 1;
  CHECK(status(call) == SPMM_ERROR_USAGE);
  CHECK(std::string(spmm_last_error_place()) == "DeviceAllocator::serves_workspace");
  call.allocate = [](void*, std::uint64_t, std::uint64_t, void*) -> void* { return nullptr; };
  CHECK(status(call) == SPMM_ERROR_USAGE);
  call.struct_size = offsetof(spmm_device_call, release);  // what lies behind is not read
  CHECK(status(call) != SPMM_ERROR_USAGE);
  call.struct_size = sizeof call;
  call.release = [](void*, void*, void*) {};
  CHECK(status(call) != SPMM_ERROR_USAGE);

  CHECK(spmm_engine_trim(engine.get()) == SPMM_OK);
  CHECK(spmm_engine_trim(nullptr) == SPMM_ERROR_USAGE);
}

TEST_CASE("DLPack: a tensor as its specification has it, old and new, which its deleter frees") {
  std::array<std::uint32_t, 24> data{};
  auto array = sized<spmm_array>();
  array.data = data.data();
  array.shape[0] = 2, array.shape[1] = 3, array.shape[2] = 4;
  array.num_dimensions = 3;
  array.element_bits = 32;
  array.is_unsigned = 1;
  array.device_type = 1;
  for (const std::size_t before : {std::size_t{0}, std::size_t{32}}) {  // of DLTensor in the managed one
    void* managed = nullptr;
    REQUIRE(spmm_make_dlpack(nullptr, &array, before != 0 ? 1 : 0, &managed) == SPMM_OK);
    const auto* const bytes = static_cast<const unsigned char*>(managed);
    const auto read = [&](std::size_t at, auto value) {
      std::memcpy(&value, bytes + at, sizeof value);
      return value;
    };
    CHECK(read(before, static_cast<const void*>(nullptr)) == data.data());
    CHECK(read(before + 8, std::array<std::int32_t, 3>{}) == std::array<std::int32_t, 3>{1, 0, 3});
    CHECK(read(before + 20, std::array<std::uint8_t, 4>{}) == std::array<std::uint8_t, 4>{1, 32, 1, 0});
    const auto* const shape = read(before + 24, static_cast<const std::int64_t*>(nullptr));
    const auto* const strides = read(before + 32, static_cast<const std::int64_t*>(nullptr));
    CHECK(std::vector(shape, shape + 3) == std::vector<std::int64_t>{2, 3, 4});
    CHECK(std::vector(strides, strides + 3) == std::vector<std::int64_t>{12, 4, 1});
    CHECK(read(before + 40, std::uint64_t{1}) == 0);
    if (before != 0) CHECK(read(0, std::array<std::uint32_t, 2>{}) == std::array<std::uint32_t, 2>{1, 0});
    const auto deleter = read(before != 0 ? 16 : 56, static_cast<void (*)(void*)>(nullptr));
    deleter(managed);  // the address sanitizer finds what stays
  }
  array.element_bits = 12;
  void* nothing = nullptr;
  CHECK(spmm_make_dlpack(nullptr, &array, 0, &nothing) == SPMM_ERROR_USAGE);
  CHECK(nothing == nullptr);
}

TEST_CASE("files through the C interface: errors have their kinds") {
  const test::TemporaryFolder folder;
  const Handle<spmm_engine> engine = make_engine();
  const std::string a = folder.file("a");
  const std::string c = folder.file("c");
  write_matrix(a, test::random_matrix(80, 8, 30, 100, 1));
  write_matrix(folder.file("other"), test::random_matrix(40, 8, 5, 100, 1));
  spmm_product_options options = on_cpu();
  spmm_report* made = nullptr;
  REQUIRE(spmm_multiply_files(engine.get(), a.c_str(), a.c_str(), c.c_str(), &options, &made) == SPMM_OK);
  const Handle<spmm_report> report(made);
  const auto multiply = [&](const std::string& left, const std::string& out) {
    const spmm_product_options one_file = on_cpu();
    return spmm_multiply_files(engine.get(), left.c_str(), a.c_str(), out.c_str(), &one_file, nullptr);
  };
  CHECK(multiply(folder.file("none"), folder.file("d")) == SPMM_ERROR_INPUT);
  CHECK(multiply(folder.file("other"), folder.file("d")) == SPMM_ERROR_SHAPE);
  CHECK(multiply(a, folder.file("none/d")) == SPMM_ERROR_OUTPUT);
  spmm_matrix* matrix = nullptr;
  CHECK(spmm_read(a.c_str(), 8, &matrix) == SPMM_ERROR_USAGE);
  CHECK(spmm_read(folder.file("none").c_str(), 0, &matrix) == SPMM_ERROR_INPUT);
  CHECK(matrix == nullptr);
}
