# cmake -D BUILD=.. -D CONFIG=.. -P install_test.cmake
# Installs what the first command of README.md has built (tools/scripts/demo.sh leaves spmm-bench and spmm-dense out), from
# copies of the install scripts in which those two have other names, then uninstalls it again.
set(work ${BUILD}/install-test)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work}/prefix/lib)
file(WRITE ${work}/prefix/lib/theirs "not ours")

foreach(part "" "/tools")
  file(READ ${BUILD}${part}/cmake_install.cmake script)
  string(REPLACE "${BUILD}/bin/spmm-bench" "${BUILD}/bin/not-built-bench" script "${script}")
  string(REPLACE "${BUILD}/bin/spmm-dense" "${BUILD}/bin/not-built-dense" script "${script}")
  string(REPLACE "${BUILD}/tools/cmake_install.cmake" "${work}/tools/cmake_install.cmake" script "${script}")
  string(REPLACE "${BUILD}/tests/cmake_install.cmake" "${work}/none.cmake" script "${script}") # nothing to install there
  string(REPLACE "\"${BUILD}/\${CMAKE_INSTALL_MANIFEST}\"" "\"${work}/\${CMAKE_INSTALL_MANIFEST}\"" script "${script}")
  file(WRITE ${work}${part}/cmake_install.cmake "${script}")
endforeach()
file(WRITE ${work}/none.cmake "")

execute_process(COMMAND ${CMAKE_COMMAND} -D CMAKE_INSTALL_PREFIX=${work}/prefix -D CMAKE_INSTALL_CONFIG_NAME=${CONFIG}
                        -P ${work}/cmake_install.cmake RESULT_VARIABLE failed OUTPUT_QUIET)
if(failed)
  message(FATAL_ERROR "an installation without spmm-bench and spmm-dense failed")
endif()
file(GLOB programs RELATIVE ${work}/prefix/bin ${work}/prefix/bin/*)
if(NOT programs STREQUAL "spmm;spmm-compare;spmm-gen;spmm-info")
  message(FATAL_ERROR "other programs than those of the demonstration were installed: ${programs}")
endif()
file(GLOB headers ${work}/prefix/include/spmm/*.hpp)
if(NOT headers)
  message(FATAL_ERROR "no header was installed")
endif()

get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
set(uninstall ${CMAKE_COMMAND} -D MANIFEST=${work}/install_manifest.txt -P ${root}/tools/scripts/uninstall.cmake)
execute_process(COMMAND ${uninstall} RESULT_VARIABLE failed OUTPUT_QUIET)
file(GLOB_RECURSE rest LIST_DIRECTORIES false RELATIVE ${work}/prefix ${work}/prefix/*)
if(failed OR NOT rest STREQUAL "lib/theirs" OR EXISTS ${work}/prefix/include/spmm)
  message(FATAL_ERROR "uninstalling failed or left more than what was there before: ${rest}")
endif()
execute_process(COMMAND ${uninstall} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
if(NOT failed)
  message(FATAL_ERROR "uninstalling twice is no mistake")
endif()
