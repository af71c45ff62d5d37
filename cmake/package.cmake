# What other builds find the installed libraries by: pkg-config files and a package of CMake. Both follow the prefix when
# it is moved.
include(CMakePackageConfigHelpers)
file(RELATIVE_PATH TG_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(pair "tachograph|reads traces of PyTorch programs and answers questions about them" "tachograph-capture|records a program, also one without Python")
  string(REGEX REPLACE "(.*)\\|(.*)" "\\1;\\2" pair ${pair})
  list(GET pair 0 TG_NAME)
  list(GET pair 1 TG_DESCRIPTION)
  configure_file(cmake/tachograph.pc.in ${CMAKE_BINARY_DIR}/${TG_NAME}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${TG_NAME}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
# Below 1.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tachograph-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/tachograph-config.cmake ${CMAKE_BINARY_DIR}/tachograph-config-version.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tachograph)
install(EXPORT tachograph-targets NAMESPACE tachograph:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tachograph)
