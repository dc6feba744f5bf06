/** @file
 * C interface of the library (C99; also C++): for C, Fortran, Julia, Rust, Python. Shared library libspmm.so.
 *
 * C = A * B, exact, elements of 16 bits, results of 32 bits that saturate at 2^32 - 1. spmm/spmm.hpp is the C++
 * interface.
 *
 * Functions that can fail return a status; on failure nothing is written to their results, and spmm_last_error_text()
 * of the same thread says what was wrong. No exception leaves the library. Handles are opaque; each has a function that
 * destroys it and takes NULL. Structs are set to zero, then struct_size to their sizeof, then the fields that matter:
 * zero is the default of every field, and later versions only add fields at the end.
 */
#ifndef SPMM_SPMM_H
#define SPMM_SPMM_H

#include <stddef.h>
#include <stdint.h>

/** A function of the shared library. */
#if defined(__GNUC__)
#define SPMM_API __attribute__((visibility("default")))
#else
#define SPMM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Grows where a function or a field is added; nothing of an earlier number changes its meaning. */
#define SPMM_C_API 5
/** The number behind libspmm.so. Grows if programs must be compiled again; the version of the project does not change
 * it. */
#define SPMM_C_SOVERSION 1

/** What a function that can fail returns: SPMM_OK or one of the errors below. */
typedef int32_t spmm_status;
/** Values of spmm_status. */
enum {
  SPMM_OK = 0,                  /**< done */
  SPMM_ERROR_INTERNAL = 1,      /**< a bug */
  SPMM_ERROR_USAGE = 2,         /**< arguments or options that cannot be carried out */
  SPMM_ERROR_SHAPE = 3,         /**< A and B do not fit each other */
  SPMM_ERROR_FORMAT = 4,        /**< a matrix breaks the format */
  SPMM_ERROR_INPUT = 5,         /**< an input cannot be opened */
  SPMM_ERROR_OUTPUT = 6,        /**< the output cannot be created */
  SPMM_ERROR_IO = 7,            /**< reading or writing failed on the way */
  SPMM_ERROR_OUT_OF_MEMORY = 8, /**< does not fit the memory or the limit */
  SPMM_ERROR_DEVICE = 9,        /**< backend or device unavailable */
  SPMM_ERROR_VERIFY = 10,       /**< a row of the result is wrong */
  SPMM_ERROR_INTERRUPTED = 11,  /**< cancelled; safe to run again */
  SPMM_ERROR_SATURATED = 12     /**< elements of the result are 2^32 - 1, see on_saturation */
};

/* ---- the library ---- */

/** "spmm 0.3.0 (git ...), CUDA 13.0 for 90, ..."; stays valid. */
SPMM_API const char* spmm_version(void);
/** SPMM_C_API of the library that is loaded. */
SPMM_API int32_t spmm_c_api(void);
/** 1 if the library was built with CUDA and a device is there, else 0. Makes no CUDA call. */
SPMM_API int32_t spmm_has_cuda_device(void);

/* ---- errors: of the last call on this thread that failed. The texts stay valid until the next call that fails. ----
 */

SPMM_API spmm_status spmm_last_error_status(void);  /**< SPMM_OK if none has failed yet */
SPMM_API const char* spmm_last_error_text(void);    /**< "<place>: <problem>; <hint>" */
SPMM_API const char* spmm_last_error_place(void);   /**< the matrix and block, the file and offset, the option */
SPMM_API const char* spmm_last_error_problem(void); /**< what was found, what was expected */
SPMM_API const char* spmm_last_error_hint(void);    /**< what to do */

/* ---- cancellation: any thread or signal handler may set the flag ---- */

/** A flag that cancels the products whose options name it. */
typedef struct spmm_cancel spmm_cancel;
SPMM_API spmm_cancel* spmm_cancel_create(void);         /**< NULL: no memory */
SPMM_API void spmm_cancel_set(spmm_cancel* cancel);     /**< products end with SPMM_ERROR_INTERRUPTED */
SPMM_API void spmm_cancel_reset(spmm_cancel* cancel);   /**< for the next product */
SPMM_API void spmm_cancel_destroy(spmm_cancel* cancel); /**< no product may use it */

/* ---- engine: what outlives a product; any number of products, from any threads, at once. It belongs to the process
 * that made it: in a child of fork() its products are SPMM_ERROR_USAGE, and spmm_engine_destroy() gives nothing back. A
 * child makes an engine of its own, without CUDA if the parent has started it. ---- */

/** As the only device: all visible ones share each product. */
#define SPMM_ALL_DEVICES (-1)

/** Of an engine; zero is the default of every field. */
typedef struct spmm_engine_options {
  uint64_t struct_size;        /**< sizeof(spmm_engine_options) */
  const int32_t* devices;      /**< [num_devices] CUDA devices that share each product, or the one SPMM_ALL_DEVICES */
  uint64_t num_devices;        /**< 0: automatic */
  uint64_t memory_limit_bytes; /**< of all products together, host and device each; 0: most of what is free */
  uint32_t num_threads;        /**< of a product; 0: all cores */
  uint32_t reserved;           /**< 0 */
} spmm_engine_options;

/** Device, memory and threads that outlive a product. */
typedef struct spmm_engine spmm_engine;
/** Makes an engine. options: NULL for the defaults. */
SPMM_API spmm_status spmm_engine_create(const spmm_engine_options* options, spmm_engine** engine);
SPMM_API void spmm_engine_destroy(spmm_engine* engine); /**< no product may be running */
/** Gives the device memory back that is kept for later products and not in use. Waits for nothing. Since SPMM_C_API 2.
 */
SPMM_API spmm_status spmm_engine_trim(spmm_engine* engine);

/* ---- products ---- */

/** Called now and then with the work done and the total of a stage ("read", "multiply", ...), from any thread, by one
 * at a time. A result other than 0 cancels the product, as spmm_cancel_set() does. */
typedef int32_t (*spmm_progress_fn)(void* context, const char* stage, uint64_t done, uint64_t total);

/** What a product does if elements of its result are 2^32 - 1. */
enum {
  SPMM_SATURATION_REPORT = 0, /**< the report says how many: spmm_report_num_saturated() */
  SPMM_SATURATION_ERROR = 1   /**< SPMM_ERROR_SATURATED; an output stays as it was */
};

/** Of one product; zero is the default of every field. */
typedef struct spmm_product_options {
  uint64_t struct_size;      /**< sizeof(spmm_product_options) */
  const char* backend;       /**< "auto", "cuda", "cpu"; NULL: auto */
  const char* kernel;        /**< a kernel by its name; NULL: auto */
  spmm_progress_fn progress; /**< NULL: none */
  void* progress_context;    /**< its first argument */
  spmm_cancel* cancel;       /**< NULL: none */
  uint64_t verify_blocks;    /**< N: prove the block rows of N blocks of A, chosen at random */
  uint64_t verify_seed;      /**< 0: 1 */
  uint32_t max_threads;      /**< 0: those of the engine */
  int32_t durable;           /**< files: fsync around the rename */
  int32_t no_clobber;        /**< files: refuse to replace the output */
  int32_t transpose_a;       /**< multiply the transpose of A */
  int32_t transpose_b;       /**< the same of B */
  int32_t verify_full;       /**< prove the whole result instead of verify_blocks; the report says what was proven */
  uint64_t proof_key;        /**< of the random numbers of that proof; 0: the system's */
  /* Since SPMM_C_API 2: */
  int32_t on_saturation; /**< SPMM_SATURATION_... */
  int32_t has_rows;      /**< 1: compute the block rows from first_row on alone. Since SPMM_C_API 3 */
  /* Since SPMM_C_API 3: */
  uint32_t first_row; /**< block row of the result, after the transposition */
  uint32_t end_row;   /**< behind the last one; UINT32_MAX: all from first_row on */
  /* Since SPMM_C_API 5, of spmm_multiply_bsr(): alpha * A * B + beta * C; of SPMM_U16 c alone. */
  const struct spmm_bsr* c; /**< C's blocks, of the type of the result; those of a row ascend. NULL: those with pairs */
  const void* alpha;        /**< [1] of the type of the result; NULL: 1 */
  const void* beta;         /**< the same; NULL: 0, and the data of c may be NULL */
  int32_t is_mask;          /**< 1: blocks that C lacks are left out; 0: they are an error */
  int32_t reserved;         /**< 0 */
  const char* pattern; /**< files: a matrix at whose blocks alone C is computed, whatever its values are; NULL: none */
  /* Elements of C that are kept, in this order; all others are zero, blocks without elements absent. Of SPMM_U16. */
  int32_t upper_triangle; /**< 1: column >= row; pairs of blocks below the diagonal are not multiplied */
  int32_t no_diagonal;    /**< 1: without the elements (r, r) */
  uint32_t at_least;      /**< smaller elements are zero */
  uint32_t keep;          /**< the largest of each row, ties: the lower column; 0: all */
} spmm_product_options;

typedef struct spmm_matrix spmm_matrix; /**< block-CSR arrays that the library owns */
typedef struct spmm_report spmm_report; /**< what a product has done: sizes, times, choices */

/** Types of the elements of operands, and of their product's. Floats are added up in one order, so that all devices
 * give the same bits; integers are exact modulo 2^64. */
typedef enum spmm_element_type {
  SPMM_U16 = 0,  /**< uint32_t, saturated: what files have */
  SPMM_F64 = 1,  /**< double */
  SPMM_F32 = 2,  /**< float */
  SPMM_F16 = 3,  /**< float */
  SPMM_BF16 = 4, /**< float */
  SPMM_I8 = 5,   /**< int64_t, as all that follow */
  SPMM_U8 = 6,   /**< int64_t */
  SPMM_I16 = 7,  /**< int64_t */
  SPMM_I32 = 8,  /**< int64_t */
  SPMM_U32 = 9,  /**< int64_t */
  SPMM_I64 = 10, /**< int64_t */
} spmm_element_type;

/** A matrix in the caller's block-CSR (BSR) arrays, which are read where they are; block_side = 1 makes it CSR. It need
 * not be square. The result of A [r, k] and B [k, c] is [r, c]. indptr [rows / block_side + 1], starting with 0;
 * indices [indptr[last]] block columns, in any order within a row; data [indptr[last], block_side, block_side]
 * row-major. */
typedef struct spmm_bsr {
  uint64_t struct_size;  /**< sizeof(spmm_bsr) */
  uint64_t rows;         /**< elements, multiples of block_side */
  uint64_t cols;         /**< the same */
  const void* indptr;    /**< int32_t or int64_t, as indptr_bits says */
  const void* indices;   /**< the same by indices_bits */
  const void* data;      /**< uint16_t or uint32_t, as element_bits says, or elements of element_type */
  uint64_t num_indices;  /**< length of indices */
  uint32_t block_side;   /**< 1 to 64 */
  uint32_t indptr_bits;  /**< 32 or 64; 0: 64 */
  uint32_t indices_bits; /**< the same */
  uint32_t element_bits; /**< 16 for operands, 32 for results; 0: 16; other types: 0 */
  const char* name;      /**< in messages; NULL: "matrix A", "matrix B" */
  /* Since SPMM_C_API 4: */
  uint32_t element_type; /**< SPMM_U16, ...: of operands */
  uint32_t reserved;     /**< 0 */
} spmm_bsr;

/** A square matrix as a list of blocks, in any order: index [num_blocks, 2] block row and block column; values
 * [num_blocks, block_side, block_side] row-major. */
typedef struct spmm_blocks {
  uint64_t struct_size;   /**< sizeof(spmm_blocks) */
  const uint32_t* index;  /**< [num_blocks, 2] */
  const uint16_t* values; /**< [num_blocks, block_side, block_side] */
  uint64_t num_blocks;    /**< in both */
  uint32_t n;             /**< elements of a side, a multiple of block_side */
  uint32_t block_side;    /**< 1 to 64 */
  const char* name;       /**< in messages; NULL: "matrix A", "matrix B" */
} spmm_blocks;

/** C = A * B in memory. options, report: may be NULL. Errors: SPMM_ERROR_SHAPE, _FORMAT, _OUT_OF_MEMORY, _DEVICE,
 * _VERIFY, _INTERRUPTED, _SATURATED, _USAGE. */
SPMM_API spmm_status spmm_multiply_bsr(spmm_engine* engine, const spmm_bsr* a, const spmm_bsr* b,
                                       const spmm_product_options* options, spmm_matrix** result, spmm_report** report);
/** The same of lists of blocks. */
SPMM_API spmm_status spmm_multiply_blocks(spmm_engine* engine, const spmm_blocks* a, const spmm_blocks* b,
                                          const spmm_product_options* options, spmm_matrix** result,
                                          spmm_report** report);
/** C = A * B of files. The output path holds the old content or the complete new one. */
SPMM_API spmm_status spmm_multiply_files(spmm_engine* engine, const char* a, const char* b, const char* out,
                                         const spmm_product_options* options, spmm_report** report);

/* ---- products in device memory: no header of CUDA is needed ---- */

/** A matrix in the caller's block-CSR arrays in the memory of one CUDA device; as spmm_bsr. */
typedef struct spmm_device_bsr {
  uint64_t struct_size; /**< sizeof(spmm_device_bsr) */
  uint64_t rows;        /**< elements, multiples of block_side */
  uint64_t cols;        /**< the same */
  const void* indptr;   /**< [rows / block_side + 1] int32_t or int64_t, as index_bits says; device */
  const void* indices;  /**< [num_blocks] the same */
  const uint16_t* data; /**< [num_blocks, block_side, block_side], device; of other types: cast the pointer */
  uint64_t num_blocks;  /**< in both */
  uint32_t block_side;  /**< 1 to 64 */
  uint32_t index_bits;  /**< 32 or 64; 0: 64 */
  /* Since SPMM_C_API 4: */
  uint32_t element_type; /**< SPMM_U16, ... */
  uint32_t reserved;     /**< 0 */
} spmm_device_bsr;

/** Memory of the caller for the arrays of a result, aligned to `alignment` bytes, which work on `stream` may use; NULL:
 * there is none. Called on the thread that multiplies. Without a release function the arrays stay the caller's. */
typedef void* (*spmm_device_allocate_fn)(void* context, uint64_t bytes, uint64_t alignment, void* stream);
/** Gives such memory back in the order of `stream`. Called on the thread that multiplies, or that destroys the result
 * or the plan. */
typedef void (*spmm_device_release_fn)(void* context, void* data, void* stream);

/** How a product in device memory is called. */
typedef struct spmm_device_call {
  uint64_t struct_size;             /**< sizeof(spmm_device_call) */
  void* stream;                     /**< cudaStream_t; NULL: the legacy default stream */
  spmm_device_allocate_fn allocate; /**< NULL: the engine's pool */
  void* allocate_context;           /**< its first argument */
  spmm_device_release_fn release;   /**< takes allocate_context, too; NULL: arrays stay the caller's */
  int32_t serves_workspace; /**< 1: all other device memory comes from `allocate`, too, on a stream of the library's,
                             * and the limit is that of the whole device; needs allocate and release */
  int32_t reserved;         /**< 0 */
  /* Since SPMM_C_API 5: as in spmm_product_options. A plan keeps C's blocks. */
  const spmm_device_bsr* c; /**< C's blocks */
  const void* alpha;        /**< host; not of a plan */
  const void* beta;         /**< the same */
  int32_t is_mask;          /**< 1: blocks that C lacks are left out */
  int32_t reserved_too;     /**< 0 */
} spmm_device_call;

/** A result in device memory. Its arrays are valid until it is destroyed, which gives them back in the order of the
 * product's stream; the engine may be gone by then. indptr and indices have A's index_bits. */
typedef struct spmm_device_matrix spmm_device_matrix;

/** C = A * B on the engine's first device, which holds all arrays. The result is complete when the call returns. call:
 * NULL for the default stream and the engine's pool; options, report: may be NULL. Errors: as spmm_multiply_bsr();
 * SPMM_ERROR_DEVICE for arrays that are not in that device's memory. Since SPMM_C_API 2. */
SPMM_API spmm_status spmm_multiply_device(spmm_engine* engine, const spmm_device_bsr* a, const spmm_device_bsr* b,
                                          const spmm_device_call* call, const spmm_product_options* options,
                                          spmm_device_matrix** result, spmm_report** report);
SPMM_API void spmm_device_matrix_destroy(spmm_device_matrix* matrix);                 /**< NULL: nothing */
SPMM_API uint64_t spmm_device_matrix_num_blocks(const spmm_device_matrix* matrix);    /**< stored blocks */
SPMM_API uint64_t spmm_device_matrix_num_saturated(const spmm_device_matrix* matrix); /**< elements at 2^32 - 1 */
SPMM_API const void* spmm_device_matrix_indptr(const spmm_device_matrix* matrix);     /**< [rows / block_side + 1] */
SPMM_API const void* spmm_device_matrix_indices(const spmm_device_matrix* matrix);    /**< [num_blocks] */
SPMM_API const uint32_t* spmm_device_matrix_data(const spmm_device_matrix* matrix);   /**< [num_blocks, side, side] */

SPMM_API int32_t spmm_device_matrix_device(const spmm_device_matrix* matrix); /**< number of the device; since 2 */

/** One of many products. Both matrices have the same struct_size. */
typedef struct spmm_device_pair {
  spmm_device_bsr a; /**< [r, k] */
  spmm_device_bsr b; /**< [k, c] */
} spmm_device_pair;

/** Many products in one call, all with the same block_side and index_bits, of any sizes. products: [num_products], each
 * behind the one before; no products give a result without arrays. The result has the rows of all products one below
 * another; block columns count within each product. Errors: as spmm_multiply_device(), which name the product;
 * SPMM_ERROR_USAGE if the sizes of all cannot be numbered together: split them. Since SPMM_C_API 2. */
SPMM_API spmm_status spmm_multiply_many_device(spmm_engine* engine, const spmm_device_pair* products,
                                               uint64_t num_products, const spmm_device_call* call,
                                               const spmm_product_options* options, spmm_device_matrix** result,
                                               spmm_report** report);
/** From an array of one matrix to that of the next, which it may overlap; 0: all have the same. */
typedef struct spmm_device_strides {
  uint64_t indptr;  /**< numbers */
  uint64_t indices; /**< numbers */
  uint64_t data;    /**< elements */
} spmm_device_strides;

/** Many products whose matrices lie at constant distances, such as those of two batched tensors. */
typedef struct spmm_device_stacks {
  uint64_t struct_size;          /**< sizeof(spmm_device_stacks) */
  uint64_t num_products;         /**< 0: a result without arrays */
  const spmm_device_bsr* a;      /**< [r, k] the first one; all have its shape and number of blocks */
  const spmm_device_bsr* b;      /**< [k, c] the same of the right ones */
  spmm_device_strides a_strides; /**< of the left ones */
  spmm_device_strides b_strides; /**< of the right ones */
} spmm_device_stacks;

/** As spmm_multiply_many_device(), of products that cost the host the same however many they are. Of each array the
 * driver is asked about the begin of the first matrix and the end of the last one. Errors: the same;
 * SPMM_ERROR_FORMAT if strides leave the address space. Since SPMM_C_API 2. */
SPMM_API spmm_status spmm_multiply_stacks_device(spmm_engine* engine, const spmm_device_stacks* products,
                                                 const spmm_device_call* call, const spmm_product_options* options,
                                                 spmm_device_matrix** result, spmm_report** report);
/** Of the result of spmm_multiply_many_device(): [num_products + 1] block rows before each, in host memory; else NULL.
 * Of stacks, product x begins at block row x * r / block_side. */
SPMM_API const uint64_t* spmm_device_matrix_first_rows(const spmm_device_matrix* matrix);
/** Of many products: [num_products + 1] blocks before each; device. */
SPMM_API const void* spmm_device_matrix_first_blocks(const spmm_device_matrix* matrix);
/** The same in host memory: copies them and waits. Shapes: to [num_products + 1]. */
SPMM_API spmm_status spmm_device_matrix_fetch_first_blocks(const spmm_device_matrix* matrix, uint64_t* to);
/** The same: [block rows + num_products] the indptr of each product, one behind another; device. */
SPMM_API const void* spmm_device_matrix_indptrs(const spmm_device_matrix* matrix);

/** A product whose pattern stays while its values change. The engine must outlive it, and the stream of its call. One
 * thread at a time. Since SPMM_C_API 2, as all of its functions. */
typedef struct spmm_device_plan spmm_device_plan;

/** Finds the pattern of C, of which all blocks with pairs are part, also if they are zero. a, b: their data may be
 * NULL; if it is there, later products are fastest if their elements are about as large. options: kernel = auto, rows,
 * row-spread or pair-list. Errors: as spmm_multiply_device(). */
SPMM_API spmm_status spmm_plan_device(spmm_engine* engine, const spmm_device_bsr* a, const spmm_device_bsr* b,
                                      const spmm_device_call* call, const spmm_product_options* options,
                                      spmm_device_plan** plan);
SPMM_API void spmm_device_plan_destroy(spmm_device_plan* plan); /**< NULL: nothing */
/** The pattern of C, without data; it belongs to the plan. */
SPMM_API const spmm_device_matrix* spmm_device_plan_pattern(const spmm_device_plan* plan);
/** C = A * B in the order of a cudaStream_t, which may be captured in a graph; waits for nothing, allocates nothing and
 * checks only that arrays are aligned. Shapes: a, b [blocks of the operands, side, side], c [blocks of the pattern,
 * side, side], 16-byte aligned, device. A replay of a graph must not overlap other work of the plan. */
SPMM_API spmm_status spmm_device_plan_multiply(spmm_device_plan* plan, const uint16_t* a, const uint16_t* b,
                                               uint32_t* c, void* stream);
/** The same of any type: C = alpha * A * B + beta * C. alpha, beta: [1], host, of the type of c, read by the call;
 * NULL: 1 and 0, which u16 wants. A graph keeps the numbers that it was captured with. Since SPMM_C_API 5. */
SPMM_API spmm_status spmm_device_plan_multiply_add(spmm_device_plan* plan, const void* a, const void* b, void* c,
                                                   const void* alpha, const void* beta, void* stream);
/** Elements of such a c that are 2^32 - 1. Waits for the stream. */
SPMM_API spmm_status spmm_device_plan_count_saturated(spmm_device_plan* plan, const uint32_t* c, void* stream,
                                                      uint64_t* count);

/** An array that DLPack describes, C-contiguous; zero is the default of every field. */
typedef struct spmm_array {
  uint64_t struct_size;   /**< sizeof(spmm_array) */
  void* data;             /**< its first element */
  int64_t shape[3];       /**< [num_dimensions] */
  int32_t num_dimensions; /**< 1 to 3 */
  int32_t element_bits;   /**< 8, 16, 32 or 64 */
  int32_t is_unsigned;    /**< 0: signed integers; 1: unsigned ones; 2: floats, since SPMM_C_API 4 */
  int32_t device_type;    /**< as DLPack numbers them: 1 CPU, 2 CUDA */
  int32_t device;         /**< its number */
  int32_t reserved;       /**< 0 */
} spmm_array;

/** A new DLManagedTensor of an array, or with is_versioned a DLManagedTensorVersioned of version 1.0, in *managed. It
 * shares the arrays of `owner` until its deleter, which no other language runs, is called; owner: NULL if the memory
 * outlives it anyhow. Errors: SPMM_ERROR_USAGE. Since SPMM_C_API 2. */
SPMM_API spmm_status spmm_make_dlpack(const spmm_device_matrix* owner, const spmm_array* array, int32_t is_versioned,
                                      void** managed);
/** The destructor of a Python capsule "dltensor" or "dltensor_versioned": calls the deleter if it has no new owner. */
SPMM_API void spmm_destroy_dlpack_capsule(void* capsule);

/* ---- matrices of the library ---- */

/** Reads a file of elements of 16 bits (operands) or 32 bits (results). 0: what its length
 * says. */
SPMM_API spmm_status spmm_read(const char* path, uint32_t element_bits, spmm_matrix** matrix);
/** Writes a file, padded with zeros to a square. Operands are checked as for a product, results are written as they
 * are. */
SPMM_API spmm_status spmm_write(const char* path, const spmm_bsr* matrix);

SPMM_API void spmm_matrix_destroy(spmm_matrix* matrix);                /**< NULL: nothing */
SPMM_API uint64_t spmm_matrix_rows(const spmm_matrix* matrix);         /**< elements */
SPMM_API uint64_t spmm_matrix_cols(const spmm_matrix* matrix);         /**< elements */
SPMM_API uint32_t spmm_matrix_block_side(const spmm_matrix* matrix);   /**< 1: CSR */
SPMM_API uint32_t spmm_matrix_element_bits(const spmm_matrix* matrix); /**< 16, 32 or 64 */
/** Of the elements of a result: SPMM_F64, SPMM_F32, SPMM_I64, or SPMM_U32. SPMM_U16: an operand. Since SPMM_C_API 4. */
SPMM_API uint32_t spmm_matrix_element_type(const spmm_matrix* matrix);
SPMM_API uint64_t spmm_matrix_num_blocks(const spmm_matrix* matrix); /**< stored blocks */
/** The arrays themselves, valid until the matrix is destroyed; each row's block columns ascend. */
SPMM_API const int64_t* spmm_matrix_indptr(const spmm_matrix* matrix);  /**< [rows / block_side + 1] */
SPMM_API const int64_t* spmm_matrix_indices(const spmm_matrix* matrix); /**< [num_blocks] */
SPMM_API const void* spmm_matrix_data(const spmm_matrix* matrix);       /**< [num_blocks, block_side, block_side] */
/** Copies indices as 32-bit numbers. SPMM_ERROR_USAGE if one does not fit: nothing is written then. */
SPMM_API spmm_status spmm_matrix_copy_indptr32(const spmm_matrix* matrix, int32_t* to);
/** The same of the block columns. */
SPMM_API spmm_status spmm_matrix_copy_indices32(const spmm_matrix* matrix, int32_t* to);

/* ---- report of a product ---- */

SPMM_API void spmm_report_destroy(spmm_report* report);              /**< NULL: nothing */
SPMM_API uint64_t spmm_report_num_blocks(const spmm_report* report); /**< of the result */
SPMM_API uint64_t spmm_report_num_pairs(const spmm_report* report);  /**< block products */
/** Elements of the result that are 2^32 - 1: their true sums are that or larger. Since SPMM_C_API 2. */
SPMM_API uint64_t spmm_report_num_saturated(const spmm_report* report);
SPMM_API double spmm_report_seconds(const spmm_report* report);      /**< of the whole product */
SPMM_API const char* spmm_report_backend(const spmm_report* report); /**< "cuda" or "cpu" */
SPMM_API const char* spmm_report_kernel(const spmm_report* report);  /**< its name */
/** Everything, as one JSON object with the keys of `spmm --report`: data/README.md, schemas. `command` is empty, and so
 * are the paths of a product in memory. Valid until the report is destroyed. */
SPMM_API const char* spmm_report_json(const spmm_report* report);

#ifdef __cplusplus
}
#endif

#endif
