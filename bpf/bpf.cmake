# BPF programs: clang to an object with BTF, bpftool to a skeleton in the build tree. Nothing generated is checked in.
find_program(PODLANE_CLANG NAMES clang clang-19 clang-16 clang-14 REQUIRED)
find_program(PODLANE_BPFTOOL NAMES bpftool PATHS /usr/sbin /sbin REQUIRED)

# podlane_bpf_program(NAME SOURCE file.bpf.c): sets PODLANE_BPF_SKELETONS (list) and makes <build>/bpf/skel/NAME.skel.h.
# Only UAPI headers and ours: the programs read no field of the kernel's own structures.
function(podlane_bpf_program name source)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/skel)
  set(object ${folder}/${name}.bpf.o)
  set(skeleton ${folder}/${name}.skel.h)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${PODLANE_CLANG} -target bpf -mcpu=v3 -O2 -g -std=gnu11 -Wall -Wextra -Werror
      -I${PROJECT_SOURCE_DIR} -idirafter /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
      -MD -MF ${object}.d -MT ${object} -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    DEPFILE ${object}.d
    COMMENT "BPF ${source}"
    VERBATIM)
  add_custom_command(
    OUTPUT ${skeleton}
    COMMAND ${CMAKE_COMMAND} -DBPFTOOL=${PODLANE_BPFTOOL} -DOBJECT=${object} -DNAME=${name} -DOUTPUT=${skeleton}
      -P ${PROJECT_SOURCE_DIR}/bpf/skeleton.cmake
    DEPENDS ${object} ${PROJECT_SOURCE_DIR}/bpf/skeleton.cmake
    COMMENT "Skeleton ${name}"
    VERBATIM)
  set(PODLANE_BPF_SKELETONS ${PODLANE_BPF_SKELETONS} ${skeleton} PARENT_SCOPE)
endfunction()
