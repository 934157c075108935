# podlane_lanes: the lane table. The lanes' host side beside it is podlane_hostside (CMakeLists.txt).
set(table_sources adopt.cpp allocate.cpp attach.cpp choose.cpp commit.cpp control_handlers.cpp control_server.cpp
  executors.cpp handover_owner.cpp lane_journal.cpp lane_state.cpp lane_store.cpp lane_table.cpp lanes_json.cpp
  naming.cpp nic_watch.cpp onload_watch.cpp pod_resources_cache.cpp reconcile.cpp reconcile_attachments.cpp
  release.cpp)
foreach(source IN LISTS table_sources)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    list(APPEND present ${source})
  endif()
endforeach()
podlane_library(podlane_lanes SOURCES ${present}
  LINKS podlane_hostside podlane_inventory podlane_handover podlane_bpf podlane_journal podlane_lane podlane_net)
# Twenty small files that all read table.hpp: as one they compile in a fraction of the time.
set_target_properties(podlane_lanes PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
