list(APPEND ctl_sources bench_command.cpp bench_pingpong.cpp bench_environment.cpp bench_socket_endpoint.cpp
  bench_lane_endpoint.cpp)
list(APPEND ctl_links podlane podlane_core podlane_addr)
set(ctl_definitions PODLANE_CTL_BENCH)
