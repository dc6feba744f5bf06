# cmake -D NM=.. -D OBJECTS=.. -P instruction_sets_test.cmake
# The linker takes any one of several weak functions of a name. If one is compiled for AVX-512, it may be called by sources
# for every machine: objects for an instruction set define none.
if(NOT OBJECTS)
  message(FATAL_ERROR "there is no object for an instruction set: is what selects them right?")
endif()
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} --defined-only ${object} RESULT_VARIABLE failed OUTPUT_VARIABLE symbols)
  if(failed)
    message(FATAL_ERROR "${NM} cannot read ${object}")
  endif()
  string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*" weak "${symbols}")
  if(weak)
    string(JOIN "\n" weak ${weak})
    message(FATAL_ERROR "${object} defines weak symbols:\n${weak}")
  endif()
endforeach()
list(LENGTH OBJECTS number)
message("${number} objects, no weak symbol")
