# Every outside library that Diptych links, in one place.
# Torch comes from the wheel of the project's own environment unless Torch_DIR or CMAKE_PREFIX_PATH names another; when pip
# builds the Python package, from the environment that pip installs into, which scikit-build-core puts on CMAKE_PREFIX_PATH.
set(DIPTYCH_TORCH_VERSION 2.13)
if(NOT Torch_DIR AND NOT SKBUILD)
  set(DIPTYCH_VENV ${PROJECT_SOURCE_DIR}/.venv CACHE PATH "Python environment that holds torch")
  file(GLOB torch_config ${DIPTYCH_VENV}/lib/python3*/site-packages/torch/share/cmake/Torch)
  if(torch_config)
    list(GET torch_config 0 Torch_DIR)
  endif()
endif()
find_package(Torch ${DIPTYCH_TORCH_VERSION})
if(NOT Torch_FOUND AND SKBUILD)
  message(FATAL_ERROR "Diptych needs torch ${DIPTYCH_TORCH_VERSION} in the environment that it is installed into; versions that "
    "are there: ${Torch_CONSIDERED_VERSIONS}. Run pip install torch==${DIPTYCH_TORCH_VERSION}.0 there first; where the build "
    "can't see that environment, add --no-build-isolation.")
elseif(NOT Torch_FOUND)
  message(FATAL_ERROR "Diptych needs LibTorch ${DIPTYCH_TORCH_VERSION} and found none. "
    "Run make setup, which puts it into ${PROJECT_SOURCE_DIR}/.venv, or pass -DTorch_DIR=<torch>/share/cmake/Torch.")
endif()
find_package(fmt REQUIRED) # used header-only: torch brings headers of another fmt, which come first
find_package(nlohmann_json REQUIRED)
find_package(Boost 1.74 REQUIRED) # Boost.Graph's max-flow is header-only
find_package(Threads REQUIRED)
