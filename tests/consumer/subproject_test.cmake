# cmake -D SOURCE=.. -D BUILD=.. -D GENERATOR=.. -D COMPILER=.. -P subproject_test.cmake
# Configures the library where cxxopts and nlohmann-json are not to be found: as a subproject, and alone.
set(work ${BUILD}/subproject-test)
file(REMOVE_RECURSE ${work})
set(options -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER} -D SPMM_CUDA=OFF
            -D CMAKE_DISABLE_FIND_PACKAGE_cxxopts=ON -D CMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)

# configure NAME RESULT ARGUMENTS...: RESULT is 0 where it works.
function(configure name result)
  execute_process(COMMAND ${CMAKE_COMMAND} -B ${work}/${name} ${options} ${ARGN}
                  RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  set(${result} ${failed} PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
endfunction()

configure(part failed -S ${SOURCE}/tests/consumer/subproject -D SPMM_SOURCE=${SOURCE})
if(failed)
  message(FATAL_ERROR "a subproject cannot be configured without cxxopts and nlohmann-json:\n${output}")
endif()
configure(alone failed -S ${SOURCE} -D SPMM_BUILD_PROGRAMS=OFF)
if(failed)
  message(FATAL_ERROR "the library alone cannot be configured without cxxopts and nlohmann-json:\n${output}")
endif()
configure(programs failed -S ${SOURCE})
if(NOT failed)
  message(FATAL_ERROR "the programs are configured without cxxopts: this test shows nothing")
endif()
