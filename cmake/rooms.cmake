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
  target_include_directories(${target} SYSTEM PUBLIC $<BUILD_INTERFACE:${TORCH_INCLUDE_DIRS}>)
  list(TRANSFORM ROOM_DEPS PREPEND diptych_)
  target_link_libraries(${target} PUBLIC ${ROOM_DEPS} torch fmt::fmt PRIVATE diptych_options)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY DIPTYCH_ROOMS ${target})
  if(name STREQUAL base)
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch.h)
  else()
    target_precompile_headers(${target} REUSE_FROM diptych_base)
  endif()
endfunction()
