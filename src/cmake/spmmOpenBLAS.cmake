# Sets spmm_OpenBLAS_FOUND and makes the target spmm::openblas. Used by the build, and by the installed package, if
# its static library is linked with OpenBLAS and does not load it.
include(CheckCXXSourceCompiles)

set(spmm_OpenBLAS_FOUND OFF)
set(folders openblas-pthread openblas-serial openblas-openmp openblas)
find_path(SPMM_OPENBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES ${folders})
find_library(SPMM_OPENBLAS_LIBRARY openblas PATH_SUFFIXES ${folders})
mark_as_advanced(SPMM_OPENBLAS_INCLUDE_DIR SPMM_OPENBLAS_LIBRARY)
if(SPMM_OPENBLAS_INCLUDE_DIR AND SPMM_OPENBLAS_LIBRARY)
  # The header may belong to another BLAS.
  set(CMAKE_REQUIRED_INCLUDES ${SPMM_OPENBLAS_INCLUDE_DIR})
  set(CMAKE_REQUIRED_LIBRARIES ${SPMM_OPENBLAS_LIBRARY})
  check_cxx_source_compiles("
    #include <cblas.h>
    int main() {
      openblas_set_num_threads(openblas_get_num_threads());
      double x = 1;
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, blasint{1}, 1, 1, 1, &x, 1, &x, 1, 0, &x, 1);
      return openblas_get_config() == nullptr;
    }" SPMM_OPENBLAS_USABLE)
  unset(CMAKE_REQUIRED_INCLUDES)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(SPMM_OPENBLAS_USABLE)
    set(spmm_OpenBLAS_FOUND ON)
    if(NOT TARGET spmm::openblas)
      add_library(spmm::openblas UNKNOWN IMPORTED GLOBAL)
      set_target_properties(spmm::openblas PROPERTIES IMPORTED_LOCATION ${SPMM_OPENBLAS_LIBRARY}
                            INTERFACE_INCLUDE_DIRECTORIES ${SPMM_OPENBLAS_INCLUDE_DIR})
    endif()
  endif()
endif()
unset(folders)
