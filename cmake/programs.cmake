# What the examples and the benchmarks share: one precompiled header, for executables and the libraries that they alone link.
# A tree with tests is compiled more often than its programs are run: there they are not optimized, as the tests are not.
if(DIPTYCH_TESTS)
  add_compile_options(-O0)
endif()
file(WRITE ${PROJECT_BINARY_DIR}/programs_pch.cpp "// Exists so that the programs' precompiled header has one target that owns it.\n")
add_library(diptych_programs_pch OBJECT ${PROJECT_BINARY_DIR}/programs_pch.cpp)
target_link_libraries(diptych_programs_pch PRIVATE diptych torch fmt::fmt-header-only diptych_options)
target_include_directories(diptych_programs_pch SYSTEM PRIVATE ${TORCH_INCLUDE_DIRS})
# Executables are compiled with -fPIE and libraries with -fPIC; a precompiled header serves only its own kind.
target_compile_options(diptych_programs_pch PRIVATE -fPIE)
target_precompile_headers(diptych_programs_pch PRIVATE ${PROJECT_SOURCE_DIR}/cmake/programs_pch.h)
