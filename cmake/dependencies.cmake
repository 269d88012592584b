# Every outside library that Diptych links, in one place.
# Torch comes from the wheel of the project's own environment unless Torch_DIR or CMAKE_PREFIX_PATH names another.
set(DIPTYCH_TORCH_VERSION 2.13)
if(NOT Torch_DIR)
  set(DIPTYCH_VENV ${PROJECT_SOURCE_DIR}/.venv CACHE PATH "Python environment that holds torch")
  file(GLOB torch_config ${DIPTYCH_VENV}/lib/python3*/site-packages/torch/share/cmake/Torch)
  if(torch_config)
    list(GET torch_config 0 Torch_DIR)
  endif()
endif()
find_package(Torch ${DIPTYCH_TORCH_VERSION})
if(NOT Torch_FOUND)
  message(FATAL_ERROR "Diptych needs LibTorch ${DIPTYCH_TORCH_VERSION} and found none. "
    "Run make setup, which puts it into ${PROJECT_SOURCE_DIR}/.venv, or pass -DTorch_DIR=<torch>/share/cmake/Torch.")
endif()
find_package(fmt REQUIRED) # used header-only: torch brings headers of another fmt, which come first
find_package(nlohmann_json REQUIRED)
find_package(Boost 1.74 REQUIRED) # Boost.Graph's max-flow is header-only
find_package(Threads REQUIRED)
