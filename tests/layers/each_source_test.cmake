# cmake -D SOURCE=.. -D BUILD=.. -D GENERATOR=.. -D COMPILER=.. -D LAUNCHER=.. -P each_source_test.cmake
# Compiles the sources of library and programs one by one, without optimisation.
set(work ${BUILD}/each-source)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${work} -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER}
                        -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -D CMAKE_BUILD_TYPE=Debug -D CMAKE_CXX_FLAGS_DEBUG=-O0
                        -D SPMM_CUDA=OFF -D SPMM_UNITY=OFF -D SPMM_BUILD_TESTS=OFF
                RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(failed)
  message(FATAL_ERROR "it cannot be configured:\n${output}")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} --build ${work} --parallel 2
                RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(failed)
  string(REGEX MATCHALL "[^\n]*(error|FAILED)[^\n]*" lines "${output}")
  string(JOIN "\n" lines ${lines})
  message(FATAL_ERROR "a source does not compile alone; is an #include missing?\n${lines}")
endif()
