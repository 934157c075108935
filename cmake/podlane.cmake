# Functions for the folders' CMakeLists. The link and include table of docs/ARCHITECTURE.md is tests/arch/table.cmake;
# tests/arch checks the graph that these calls build against it.

# Everything below deviceplugin/kubelet builds without exceptions (style.md 22).
function(podlane_target_options target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE podlane_build)
endfunction()

# podlane_library(NAME SOURCES a.cpp… [LINKS t…] [EXCEPTIONS])
function(podlane_library name)
  cmake_parse_arguments(ARG "EXCEPTIONS" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  podlane_target_options(${name})
  target_link_libraries(${name} PUBLIC ${ARG_LINKS})
  if(NOT ARG_EXCEPTIONS)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>)
  endif()
endfunction()

# podlane_program(NAME SOURCES a.cpp… [LINKS t…] [STATIC])   STATIC is dropped under sanitizers, which cannot do it.
function(podlane_program name)
  cmake_parse_arguments(ARG "STATIC" "OUTPUT_NAME" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  podlane_target_options(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
  if(ARG_OUTPUT_NAME)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT_NAME})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if(ARG_STATIC AND PODLANE_SANITIZE STREQUAL "none")
    target_link_options(${name} PRIVATE -static)
  endif()
endfunction()

# podlane_test(NAME LABEL unit|kernel|bpf|system|arch|bench SOURCES a.cpp… [LINKS t…] [TIMEOUT s] [SERIAL])
# One GoogleTest program = one ctest entry; PODLANE_BIN in its environment names the folder of the built programs.
function(podlane_test name)
  cmake_parse_arguments(ARG "SERIAL" "LABEL;TIMEOUT" "SOURCES;LINKS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  podlane_target_options(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "PODLANE_BIN=${PROJECT_BINARY_DIR}/bin;PODLANE_SOURCE=${PROJECT_SOURCE_DIR}")
  if(ARG_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()
