# Runs bpftool and writes its output to a file only when it succeeded, so that a failed run leaves no half skeleton.
execute_process(COMMAND ${BPFTOOL} gen skeleton ${OBJECT} name ${NAME} OUTPUT_VARIABLE text RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "bpftool gen skeleton ${OBJECT}: status ${status}")
endif()
file(WRITE ${OUTPUT} "${text}")
