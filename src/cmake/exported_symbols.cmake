# cmake -D NM=.. -D LIBRARY=libspmm.a -D OUTPUT=.. -D SOVERSION=.. -D VERSION=.. -P exported_symbols.cmake
# Writes what libspmm.so exports, as a version script. The C interface has a node of its own. Functions of the namespace spmm, its
# classes and their types are for C++ of the same version alone: a program that was built with another one says so as it starts.
# Everything else, such as inline functions and the CUDA runtime, stays inside: two versions may be loaded into one process.
execute_process(COMMAND ${NM} --defined-only --extern-only ${LIBRARY} OUTPUT_VARIABLE listed ERROR_QUIET RESULT_VARIABLE failed)
# Kernels have names in unnamed namespaces, which nvcc makes global.
string(REGEX REPLACE "[^\n]*_GLOBAL__N[^\n]*\n" "" listed "${listed}")
string(REGEX MATCHALL " (T _ZNK?|V _ZT[ISV]N)4spmm[^\n]*" names "${listed}")
if(failed OR NOT names)
  message(FATAL_ERROR "${NM} finds no functions of the namespace spmm in ${LIBRARY}")
endif()
list(TRANSFORM names REPLACE "^ [TV] " "  ")
list(REMOVE_DUPLICATES names)
list(SORT names)
string(JOIN ";\n" names ${names})
file(WRITE ${OUTPUT} "SPMM_${SOVERSION} { global: spmm_*; local: *; };\nSPMM_PRIVATE_${VERSION} { global:\n${names};\n};\n")
