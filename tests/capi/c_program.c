/* A C program against the shared library: products in memory and of files, errors, progress, cancellation. C99. */
#include <stdio.h>
#include <string.h>

#include "spmm/spmm.h"

static int failed(int line, const char* what) {
  fprintf(stderr, "line %d: %s; last error: %s\n", line, what, spmm_last_error_text());
  return 1;
}
#define CHECK(condition) \
  if (!(condition)) return failed(__LINE__, #condition)

static int32_t count_calls(void* context, const char* stage, uint64_t done, uint64_t total) {
  *(int*)context += stage != NULL && done <= total;
  return 0;
}

static int32_t cancel_at_once(void* context, const char* stage, uint64_t done, uint64_t total) {
  (void)context, (void)stage, (void)done, (void)total;
  return 1;
}

/* [1 2; 3 4] at block (0, 0) of 4 x 4 elements, and twice that matrix as B with 32-bit indices. */
static const int64_t indptr[] = {0, 1, 1};
static const int64_t indices[] = {0};
static const uint16_t data[] = {1, 2, 3, 4};
static const int32_t indptr32[] = {0, 1, 1};
static const int32_t indices32[] = {0};
static const uint16_t doubled[] = {2, 4, 6, 65535};

static spmm_bsr matrix_a(void) {
  spmm_bsr a = {0};
  a.struct_size = sizeof a;
  a.rows = a.cols = 4;
  a.block_side = 2;
  a.indptr = indptr;
  a.indices = indices;
  a.num_indices = 1;
  a.data = data;
  return a;
}

static spmm_bsr matrix_b(void) {
  spmm_bsr b = matrix_a();
  b.indptr = indptr32;
  b.indices = indices32;
  b.indptr_bits = b.indices_bits = 32;
  b.data = doubled;
  return b;
}

static int in_memory(spmm_engine* engine) {
  const uint32_t expected[] = {1 * 2 + 2 * 6, 1 * 4 + 2 * 65535, 3 * 2 + 4 * 6, 3 * 4 + 4 * 65535};
  const spmm_bsr a = matrix_a();
  const spmm_bsr b = matrix_b();
  int calls = 0;
  int32_t narrow[3] = {9, 9, 9};
  spmm_matrix* c = NULL;
  spmm_report* report = NULL;
  spmm_product_options options = {0};
  options.struct_size = sizeof options;
  options.backend = "cpu";
  options.progress = count_calls;
  options.progress_context = &calls;
  options.verify_blocks = 1;
  CHECK(spmm_multiply_bsr(engine, &a, &b, &options, &c, &report) == SPMM_OK);
  CHECK(calls > 0);
  CHECK(spmm_matrix_rows(c) == 4 && spmm_matrix_cols(c) == 4 && spmm_matrix_block_side(c) == 2);
  CHECK(spmm_matrix_num_blocks(c) == 1 && spmm_matrix_element_bits(c) == 32);
  CHECK(spmm_matrix_indptr(c)[1] == 1 && spmm_matrix_indptr(c)[2] == 1 && spmm_matrix_indices(c)[0] == 0);
  CHECK(memcmp(spmm_matrix_data(c), expected, sizeof expected) == 0);
  CHECK(spmm_matrix_copy_indptr32(c, narrow) == SPMM_OK && narrow[0] == 0 && narrow[1] == 1 && narrow[2] == 1);
  CHECK(spmm_report_num_blocks(report) == 1 && spmm_report_num_pairs(report) == 1);
  CHECK(strcmp(spmm_report_backend(report), "cpu") == 0 && spmm_report_kernel(report)[0] != 0);
  CHECK(spmm_report_seconds(report) > 0 && strstr(spmm_report_json(report), "\"verified_blocks\":1") != NULL);
  CHECK(strstr(spmm_report_json(report), "\"proof\"") == NULL);
  spmm_matrix_destroy(c);
  spmm_report_destroy(report);
  options.verify_full = 1;
  options.proof_key = 7;
  CHECK(spmm_multiply_bsr(engine, &a, &b, &options, &c, &report) == SPMM_OK);
  CHECK(memcmp(spmm_matrix_data(c), expected, sizeof expected) == 0);
  CHECK(strstr(spmm_report_json(report), "\"proof\":{\"key\":7,") != NULL);
  CHECK(spmm_report_num_saturated(report) == 0);
  spmm_matrix_destroy(c);
  spmm_report_destroy(report);
  return 0;
}

static int files(spmm_engine* engine, const char* folder) {
  char in[512];
  char out[512];
  spmm_matrix* read = NULL;
  spmm_report* report = NULL;
  const spmm_bsr a = matrix_a();
  snprintf(in, sizeof in, "%s/a.bin", folder);
  snprintf(out, sizeof out, "%s/c.bin", folder);
  CHECK(spmm_write(in, &a) == SPMM_OK);
  CHECK(spmm_multiply_files(engine, in, in, out, NULL, &report) == SPMM_OK);
  CHECK(spmm_report_num_blocks(report) == 1);
  CHECK(spmm_read(out, 0, &read) == SPMM_OK);
  CHECK(spmm_matrix_element_bits(read) == 32 && ((const uint32_t*)spmm_matrix_data(read))[0] == 7);
  spmm_matrix_destroy(read);
  CHECK(spmm_read(in, 0, &read) == SPMM_OK);
  CHECK(spmm_matrix_element_bits(read) == 16 && memcmp(spmm_matrix_data(read), data, sizeof data) == 0);
  spmm_matrix_destroy(read);
  spmm_report_destroy(report);
  CHECK(spmm_multiply_files(engine, "no such file", in, out, NULL, NULL) == SPMM_ERROR_INPUT);
  CHECK(strstr(spmm_last_error_place(), "no such file") != NULL);
  return 0;
}

static int errors(spmm_engine* engine) {
  spmm_bsr a = matrix_a();
  const spmm_bsr b = matrix_b();
  spmm_matrix* c = NULL;
  spmm_cancel* cancel = spmm_cancel_create();
  spmm_product_options options = {0};
  options.struct_size = sizeof options;
  a.cols = 2;
  CHECK(spmm_multiply_bsr(engine, &a, &b, NULL, &c, NULL) == SPMM_ERROR_SHAPE && c == NULL);
  CHECK(spmm_last_error_status() == SPMM_ERROR_SHAPE);
  CHECK(strcmp(spmm_last_error_place(), "matrix A and matrix B") == 0);
  CHECK(strcmp(spmm_last_error_problem(), "shapes 4 x 2 and 4 x 4") == 0 && spmm_last_error_hint()[0] != 0);
  a.cols = 4;
  a.name = "the left one";
  a.num_indices = 5;
  CHECK(spmm_multiply_bsr(engine, &a, &b, NULL, &c, NULL) == SPMM_ERROR_FORMAT);
  CHECK(strstr(spmm_last_error_text(), "the left one, indices: has 5 entries, expected 1") != NULL);
  CHECK(c == NULL);
  options.kernel = "none";
  CHECK(spmm_multiply_bsr(engine, &b, &b, &options, &c, NULL) == SPMM_ERROR_USAGE);
  CHECK(strcmp(spmm_last_error_place(), "kernel") == 0);
  options.kernel = NULL;
  options.progress = cancel_at_once;
  CHECK(spmm_multiply_bsr(engine, &b, &b, &options, &c, NULL) == SPMM_ERROR_INTERRUPTED && c == NULL);
  options.progress = NULL;
  options.cancel = cancel;
  spmm_cancel_set(cancel);
  CHECK(spmm_multiply_bsr(engine, &b, &b, &options, &c, NULL) == SPMM_ERROR_INTERRUPTED && c == NULL);
  spmm_cancel_reset(cancel);
  CHECK(spmm_multiply_bsr(engine, &b, &b, &options, &c, NULL) == SPMM_OK && c != NULL);
  spmm_matrix_destroy(c);
  spmm_cancel_destroy(cancel);
  options.struct_size = 0;
  CHECK(spmm_multiply_bsr(engine, &b, &b, &options, &c, NULL) == SPMM_ERROR_USAGE);
  CHECK(spmm_multiply_bsr(NULL, &b, &b, NULL, &c, NULL) == SPMM_ERROR_USAGE);
  spmm_matrix_destroy(NULL);
  spmm_report_destroy(NULL);
  spmm_engine_destroy(NULL);
  return 0;
}

int main(int argc, char** argv) {
  spmm_engine* engine = NULL;
  spmm_engine_options options = {0};
  int result;
  if (argc != 2) return 2;
  options.struct_size = sizeof options;
  options.num_threads = 2;
  CHECK(strncmp(spmm_version(), "spmm ", 5) == 0 && spmm_c_api() == SPMM_C_API);
  CHECK(spmm_has_cuda_device() == 0 || spmm_has_cuda_device() == 1);
  CHECK(spmm_engine_create(&options, &engine) == SPMM_OK);
  result = in_memory(engine) || files(engine, argv[1]) || errors(engine);
  spmm_engine_destroy(engine);
  if (result == 0) puts("the C interface does what it says");
  return result;
}
