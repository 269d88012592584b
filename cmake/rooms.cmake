# The umbrella target diptych::diptych: every room, and the headers diptych/diptych.h and diptych/fwd.h. Rooms add themselves to it.
add_library(diptych INTERFACE)
add_library(diptych::diptych ALIAS diptych)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/rooms/umbrella/diptych)
foreach(header diptych.h fwd.h)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/diptych/${header} ${PROJECT_BINARY_DIR}/rooms/umbrella/diptych/${header} SYMBOLIC)
endforeach()
target_include_directories(diptych INTERFACE
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/rooms/umbrella> $<INSTALL_INTERFACE:include>)

# lib_room(<name> SOURCES ... DEPS ...) makes the target diptych_<name> from src/diptych/<name>.
# A room sees its own headers and those of the rooms it names, and no others: each room gets an include
# folder of its own that holds one link, so an include that points up fails to build.
function(lib_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPS" ${ARGN})
  set(target diptych_${name})
  set(view ${PROJECT_BINARY_DIR}/rooms/${name})
  file(MAKE_DIRECTORY ${view}/diptych)
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${name} ${view}/diptych/${name} SYMBOLIC)
  list(TRANSFORM ROOM_SOURCES PREPEND ${name}/)
  add_library(${target} STATIC ${ROOM_SOURCES})
  add_library(diptych::${name} ALIAS ${target})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${view}> $<INSTALL_INTERFACE:include>)
  # Torch's headers warn under -Wextra; they are not ours to mend.
  target_include_directories(${target} SYSTEM PUBLIC "$<BUILD_INTERFACE:${TORCH_INCLUDE_DIRS}>")
  list(TRANSFORM ROOM_DEPS PREPEND diptych_)
  target_link_libraries(${target} PUBLIC ${ROOM_DEPS} torch fmt::fmt-header-only PRIVATE $<BUILD_INTERFACE:diptych_options>)
  target_compile_features(${target} PUBLIC cxx_std_20) # for users of the installation; inside, compile_options.cmake says it
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} UNITY_BUILD ${DIPTYCH_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  set_property(GLOBAL APPEND PROPERTY DIPTYCH_ROOMS ${target})
  target_link_libraries(diptych INTERFACE ${target})
  if(name STREQUAL base)
    # Named by include path and not by absolute path, which would keep checkouts from sharing ccache's results.
    target_precompile_headers(${target} PRIVATE [["pch.h"]])
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake)
  else()
    target_precompile_headers(${target} REUSE_FROM diptych_base)
  endif()
endfunction()
