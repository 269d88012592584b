# The installed package: find_package(Diptych) gives diptych::diptych (all rooms) and diptych::<room>.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY DIPTYCH_ROOMS)
install(TARGETS diptych ${rooms} diptych_llvm EXPORT DiptychTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Headers keep their room in the path, "diptych/graph/graph.h".
foreach(target ${rooms})
  string(REGEX REPLACE "^diptych_" "" room ${target})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/diptych/${room} DESTINATION include/diptych FILES_MATCHING PATTERN "*.h")
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/src/diptych/diptych.h ${PROJECT_SOURCE_DIR}/src/diptych/fwd.h DESTINATION include/diptych)

if(DIPTYCH_LAUNCHER)
  install(TARGETS diptych_launch RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Diptych)
install(EXPORT DiptychTargets NAMESPACE diptych:: DESTINATION ${config_folder})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/DiptychConfig.cmake.in
  ${PROJECT_BINARY_DIR}/DiptychConfig.cmake INSTALL_DESTINATION ${config_folder})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/DiptychConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/torch.cmake ${PROJECT_BINARY_DIR}/DiptychConfig.cmake ${PROJECT_BINARY_DIR}/DiptychConfigVersion.cmake
  DESTINATION ${config_folder})
