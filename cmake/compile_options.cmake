# Flags that every target of the tree shares; a target gets them by linking diptych_options.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what lets ccache cache units that use a precompiled header. The base folder and the unhashed working
  # folder let build folders and checkouts share what was compiled: release takes from ci, a new clone from an old one.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
endif()

add_library(diptych_options INTERFACE)
target_compile_features(diptych_options INTERFACE cxx_std_20)
target_compile_options(diptych_options INTERFACE
  $<BUILD_INTERFACE:-Wall;-Wextra;-Wno-unused-parameter;-fpch-preprocess>)
if(DIPTYCH_SANITIZE)
  # vptr checks want LibTorch's type information, which it hides; g++ 12 takes instrumented code for uninitialized.
  target_compile_options(diptych_options INTERFACE
    $<BUILD_INTERFACE:-fsanitize=${DIPTYCH_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize=vptr;-Wno-maybe-uninitialized>)
  target_link_options(diptych_options INTERFACE $<BUILD_INTERFACE:-fsanitize=${DIPTYCH_SANITIZE}>)
endif()
