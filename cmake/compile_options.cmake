# Flags that every target of the tree shares; a target gets them by linking diptych_options.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(DIPTYCH_CLANG_BUILD $<CXX_COMPILER_ID:Clang>)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what lets ccache cache units that use a precompiled header. g++'s hold no paths, so that build folders
  # and checkouts may share what was compiled; clang's name the headers that they were made of. What a unit reads is taken
  # from the compiler's own list: to preprocess it without its precompiled header, as ccache would, finds headers missing.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(shared CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${shared} ${CCACHE_PROGRAM})
endif()

# Linking a hundred programs against LibTorch takes lld a third of the time that the system's linker takes.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  find_program(DIPTYCH_LLD NAMES ld.lld-19 ld.lld)
endif()

add_library(diptych_options INTERFACE)
target_compile_features(diptych_options INTERFACE cxx_std_20)
# Clang's precompiled headers hold no times, so that a header that is back as it was needs nothing built again, and its
# -Wextra takes a designated initializer that leaves fields to their defaults for an oversight.
target_compile_options(diptych_options INTERFACE
  "$<BUILD_INTERFACE:-Wall;-Wextra;-Wno-unused-parameter>"
  "$<BUILD_INTERFACE:$<IF:${DIPTYCH_CLANG_BUILD},-Wno-missing-designated-field-initializers;-Xclang;-fno-pch-timestamp,-fpch-preprocess>>")
target_link_options(diptych_options INTERFACE $<BUILD_INTERFACE:$<$<BOOL:${DIPTYCH_LLD}>:-fuse-ld=lld>>)
if(DIPTYCH_SANITIZE)
  # vptr checks want LibTorch's type information, which it hides; g++ 12 takes instrumented code for uninitialized.
  target_compile_options(diptych_options INTERFACE
    $<BUILD_INTERFACE:-fsanitize=${DIPTYCH_SANITIZE};-fno-omit-frame-pointer;-fno-sanitize=vptr>
    $<$<NOT:$<BOOL:${DIPTYCH_CLANG_BUILD}>>:$<BUILD_INTERFACE:-Wno-maybe-uninitialized>>)
  target_link_options(diptych_options INTERFACE $<BUILD_INTERFACE:-fsanitize=${DIPTYCH_SANITIZE}>)
endif()
