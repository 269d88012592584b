# Every outside library that Diptych links, in one place.
# Torch comes from the wheel of the project's own environment unless Torch_DIR or CMAKE_PREFIX_PATH names another; when pip
# builds the Python package, from the environment that pip installs into, which scikit-build-core puts on CMAKE_PREFIX_PATH.
if(NOT Torch_DIR AND NOT SKBUILD)
  set(DIPTYCH_VENV ${PROJECT_SOURCE_DIR}/.venv CACHE PATH "Python environment that holds torch")
  file(GLOB torch_config ${DIPTYCH_VENV}/lib/python3*/site-packages/torch/share/cmake/Torch)
  if(torch_config)
    list(GET torch_config 0 Torch_DIR)
  endif()
endif()
include(torch)
find_torch()
if(NOT Torch_FOUND AND SKBUILD)
  message(FATAL_ERROR "Diptych needs torch ${DIPTYCH_TORCH_OLDEST} to ${DIPTYCH_TORCH_NEWEST} in the environment that it is installed into; "
    "versions that are there: ${Torch_CONSIDERED_VERSIONS}. Run pip install torch there first; where the build "
    "can't see that environment, add --no-build-isolation.")
elseif(NOT Torch_FOUND)
  message(FATAL_ERROR "Diptych needs LibTorch ${DIPTYCH_TORCH_OLDEST} to ${DIPTYCH_TORCH_NEWEST} and found none: '${Torch_CONSIDERED_VERSIONS}'. "
    "Run make setup, which puts it into ${PROJECT_SOURCE_DIR}/.venv, or pass -DTorch_DIR=<torch>/share/cmake/Torch.")
endif()
find_package(fmt REQUIRED) # used header-only: torch brings headers of another fmt, which come first
find_package(nlohmann_json REQUIRED)
find_package(Boost 1.74 REQUIRED) # Boost.Graph's max-flow is header-only
find_package(Threads REQUIRED)

# LLVM compiles the native backend's kernels. Its libraries are linked into diptych_llvm alone (src/diptych/CMakeLists.txt), and
# what they want of the system into it too where the system has that as archives: a wheel then runs where neither is installed.
set(DIPTYCH_LLVM_VERSION 19.1)
find_program(DIPTYCH_LLVM_CONFIG NAMES llvm-config-19 llvm-config-19.1 llvm-config)
if(DIPTYCH_LLVM_CONFIG)
  execute_process(COMMAND ${DIPTYCH_LLVM_CONFIG} --version OUTPUT_VARIABLE found_llvm OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT found_llvm MATCHES "^${DIPTYCH_LLVM_VERSION}[.]")
  message(FATAL_ERROR "Diptych needs LLVM ${DIPTYCH_LLVM_VERSION} with its static libraries, and llvm-config named "
    "'${DIPTYCH_LLVM_CONFIG}' of version '${found_llvm}'. Run make setup, which installs llvm-19-dev on Debian and Ubuntu, "
    "or pass -DDIPTYCH_LLVM_CONFIG=<llvm 19>/bin/llvm-config.")
endif()
execute_process(COMMAND ${DIPTYCH_LLVM_CONFIG} --includedir
  OUTPUT_VARIABLE DIPTYCH_LLVM_INCLUDES OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${DIPTYCH_LLVM_CONFIG} --link-static --libfiles asmparser core instcombine nativecodegen orcjit scalaropts
  OUTPUT_VARIABLE llvm_files OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(DIPTYCH_LLVM_LIBRARIES UNIX_COMMAND "${llvm_files}")
foreach(name zstd z)
  find_library(DIPTYCH_LLVM_${name} NAMES lib${name}.a ${name})
  if(DIPTYCH_LLVM_${name})
    list(APPEND DIPTYCH_LLVM_LIBRARIES ${DIPTYCH_LLVM_${name}})
  endif()
endforeach()
list(APPEND DIPTYCH_LLVM_LIBRARIES Threads::Threads ${CMAKE_DL_LIBS})
