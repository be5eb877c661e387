# SPDX-License-Identifier: Apache-2.0
# Install rules: both libraries, the public headers, pkg-config and CMake package files, tools, man pages. The package
# files find everything relative to themselves, so an installed tree may be moved. They are written by hand: the static
# library carries the objects of all rooms, and an exported target would name rooms that are not installed.
if(NOT TARGET selene OR NOT TARGET selene_static)
  return()
endif()
include(CMakePackageConfigHelpers)
set_target_properties(selene_static PROPERTIES OUTPUT_NAME selene)

install(TARGETS selene selene_static
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES engine/selene.h engine/selene_offers.h base/selene_error.h index/selene_layout.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(tool selene-replay selene-bench)
  if(TARGET ${tool})
    install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
file(GLOB selene_pages CONFIGURE_DEPENDS docs/man/*.1)
install(FILES ${selene_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES LICENSE CHANGELOG.md docs/examples/minimal.c docs/examples/offers.c docs/examples/layout.json
        DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package_dir ${CMAKE_CURRENT_BINARY_DIR}/package)
file(RELATIVE_PATH SELENE_PC_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/selene.pc.in ${package_dir}/selene.pc @ONLY)
install(FILES ${package_dir}/selene.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_destination ${CMAKE_INSTALL_LIBDIR}/cmake/Selene)
configure_package_config_file(cmake/SeleneConfig.cmake.in ${package_dir}/SeleneConfig.cmake.named
                              INSTALL_DESTINATION ${package_destination}
                              PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
file(GENERATE OUTPUT ${package_dir}/SeleneConfig.cmake INPUT ${package_dir}/SeleneConfig.cmake.named)
write_basic_package_version_file(${package_dir}/SeleneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${package_dir}/SeleneConfig.cmake ${package_dir}/SeleneConfigVersion.cmake
        DESTINATION ${package_destination})
