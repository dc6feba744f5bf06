// SPMM_ISA_BEGIN and SPMM_ISA_END: functions between them are compiled for SPMM_ISA, whatever the rest of the program
// is compiled for. No function of the standard library may stand there: other files would get it, too.
#pragma once

#define SPMM_PRAGMA_TEXT(...) _Pragma(#__VA_ARGS__)
#define SPMM_PRAGMA(...) SPMM_PRAGMA_TEXT(__VA_ARGS__)

#if !defined(SPMM_ISA)
#define SPMM_ISA_BEGIN
#define SPMM_ISA_END
#elif defined(__clang__)
#define SPMM_ISA_BEGIN SPMM_PRAGMA(clang attribute push(__attribute__((target(SPMM_ISA))), apply_to = function))
#define SPMM_ISA_END _Pragma("clang attribute pop")
#else
#define SPMM_ISA_BEGIN SPMM_PRAGMA(GCC push_options) SPMM_PRAGMA(GCC target(SPMM_ISA))
#define SPMM_ISA_END _Pragma("GCC pop_options")
#endif
