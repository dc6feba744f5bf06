# cmake -D SOURCE=.. -D BUILD=.. -D CONFIG=.. -D GENERATOR=.. -D COMPILER=.. -D FLAGS=.. -P consumer_test.cmake
# Installs this build into a temporary prefix, then configures, builds and runs the consumer against it.
set(work ${BUILD}/consumer)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work}/data)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed)
  if(failed)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "failed (${failed}): ${command}")
  endif()
endfunction()

# The list of what a user has installed from this build stays as it was: "uninstall" needs it.
set(manifest ${BUILD}/install_manifest.txt)
if(EXISTS ${manifest})
  file(RENAME ${manifest} ${work}/install_manifest.txt)
endif()
run(${CMAKE_COMMAND} --install ${BUILD} --config ${CONFIG} --prefix ${work}/prefix)
file(REMOVE ${manifest})
if(EXISTS ${work}/install_manifest.txt)
  file(RENAME ${work}/install_manifest.txt ${manifest})
endif()

# If there is Ninja, the consumer is built without make: PATH holds nothing but what a compiler calls.
find_program(ninja NAMES ninja ninja-build)
if(ninja)
  file(MAKE_DIRECTORY ${work}/path)
  foreach(program as ld ar ranlib nm)
    find_program(found_${program} ${program} REQUIRED)
    file(CREATE_LINK ${found_${program}} ${work}/path/${program} SYMBOLIC)
  endforeach()
  file(CREATE_LINK ${ninja} ${work}/path/ninja SYMBOLIC)
  set(ENV{PATH} ${work}/path)
  set(GENERATOR Ninja)
endif()
set(ENV{CMAKE_GENERATOR} ${GENERATOR})
run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${work}/build -D CMAKE_BUILD_TYPE=${CONFIG}
    -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CXX_FLAGS=${FLAGS} -D CMAKE_PREFIX_PATH=${work}/prefix
    # a user of the library needs none of these
    -D CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON -D CMAKE_DISABLE_FIND_PACKAGE_cxxopts=ON -D CMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)
run(${CMAKE_COMMAND} --build ${work}/build --config ${CONFIG})
find_program(consumer consumer PATHS ${work}/build ${work}/build/${CONFIG} NO_DEFAULT_PATH REQUIRED)
run(${consumer} ${work}/data)
find_program(many_products many_products PATHS ${work}/build ${work}/build/${CONFIG} NO_DEFAULT_PATH REQUIRED)
run(${many_products} ${work}/data)
run(${work}/prefix/bin/spmm --version)
find_program(c_consumer c_consumer PATHS ${work}/build ${work}/build/${CONFIG} NO_DEFAULT_PATH)
if(c_consumer)
  run(${c_consumer} ${work}/data)
elseif(EXISTS ${work}/prefix/include/spmm/spmm.h AND HAVE_CAPI)
  message(FATAL_ERROR "the C interface was not installed")
endif()

# The installed package must not point back into the source or build tree.
file(GLOB_RECURSE files ${work}/prefix/lib*/cmake/spmm/*.cmake)
foreach(file IN LISTS files)
  file(STRINGS ${file} lines)
  string(FIND "${lines}" "${SOURCE}/" found)
  if(NOT found EQUAL -1)
    message(FATAL_ERROR "${file} names the source tree")
  endif()
endforeach()
