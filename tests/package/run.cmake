# cmake -DBUILD=<build> -DPROJECT=<sources> -DWORK=<scratch> -P run.cmake; fails with the output of the step that failed.
function(step name)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${name} failed (${result}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# The sources are copied out of the tree, so that nothing of it can be found by a relative path.
file(REMOVE_RECURSE ${WORK})
file(COPY ${PROJECT}/ DESTINATION ${WORK}/source)
step(install ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)

# No target may lead back into the build or the sources.
file(GLOB_RECURSE package_files ${WORK}/prefix/*/cmake/Diptych/DiptychTargets*.cmake)
if(NOT package_files)
  message(FATAL_ERROR "the installation has no DiptychTargets.cmake:\n${output}")
endif()
foreach(file ${package_files})
  file(STRINGS ${file} leaks REGEX "${BUILD}/(rooms|src)")
  if(leaks)
    message(FATAL_ERROR "${file} names the build folder: ${leaks}")
  endif()
endforeach()

step(configure ${CMAKE_COMMAND} -G Ninja -S ${WORK}/source -B ${WORK}/build -DCMAKE_BUILD_TYPE=Debug
  -DCMAKE_PREFIX_PATH=${WORK}/prefix "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DCMAKE_CXX_FLAGS=${FLAGS}")
step(build ${CMAKE_COMMAND} --build ${WORK}/build)
step(run ${WORK}/build/diptych_user)
foreach(expected "aten.tanh" "aten.mul.Tensor" "f32\\[2,3\\]" "aten.tanh_backward" "eager.s values: true" "gradient is eager.s: true")
  if(NOT output MATCHES "${expected}")
    message(FATAL_ERROR "the example project's output lacks '${expected}':\n${output}")
  endif()
endforeach()
message(STATUS "the example project printed:\n${output}")
