# find_package(tachograph): the targets tachograph::tachograph (reading) and tachograph::tachograph-capture (recording).
include(${CMAKE_CURRENT_LIST_DIR}/tachograph-targets.cmake)
