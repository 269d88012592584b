# Finds LibTorch, of every version that the tree is written for, whether or not it was built with CUDA; used by the build and by
# find_package(Diptych). Diptych links what each build of a version has (torch_cpu, c10), and so is one binary for all of them.
set(DIPTYCH_TORCH_OLDEST 2.13)
set(DIPTYCH_TORCH_NEWEST 2.15) # the newest minor version that the tests were run with

macro(find_torch)
  # A CUDA build of torch asks for nvcc and CUDA's headers, of which nothing here is compiled: its configuration takes CUDA for
  # found where this target exists ("poor man's include guard" in Caffe2/public/cuda.cmake).
  if(NOT TARGET torch::cudart)
    add_library(torch::cudart INTERFACE IMPORTED)
  endif()
  find_package(Torch ${DIPTYCH_TORCH_OLDEST})
  if(Torch_FOUND)
    string(REGEX MATCH "^[0-9]+[.][0-9]+" torch_minor_version "${Torch_VERSION}")
    if(torch_minor_version VERSION_GREATER DIPTYCH_TORCH_NEWEST)
      message(WARNING "Diptych was tested with LibTorch ${DIPTYCH_TORCH_OLDEST} to ${DIPTYCH_TORCH_NEWEST}; this is ${Torch_VERSION}.")
    endif()
    # Not torch_cuda: a library that names it would not load beside the CPU build.
    set_target_properties(torch PROPERTIES INTERFACE_LINK_LIBRARIES torch_cpu_library)
  endif()
endmacro()
