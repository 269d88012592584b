# The compiler, chosen before project() looks for one: clang 19 where it is installed, since it builds the tree in a third of
# the time that g++ 12 takes (it instantiates a precompiled header's templates once, g++ in every unit again); else what CMake
# finds. CMAKE_CXX_COMPILER, the variable CXX and projects that include this one have their own way.
if(NOT DEFINED CMAKE_CXX_COMPILER AND NOT DEFINED CMAKE_TOOLCHAIN_FILE AND NOT DEFINED ENV{CXX}
   AND CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  find_program(DIPTYCH_CLANG clang++-19)
  if(DIPTYCH_CLANG)
    set(CMAKE_CXX_COMPILER ${DIPTYCH_CLANG})
  endif()
endif()
