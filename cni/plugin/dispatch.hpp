// From environment and standard input to what must be printed. One thread.
#pragma once

#include <string>
#include <string_view>

#include "cni/spec/cni_args.hpp"

namespace podlane::cni {

struct Outcome {
  int exit_status = 0;
  std::string output;  // For standard output; may be empty.
};

// log_fd: where log lines go unless NetConf's logFile says otherwise.
Outcome dispatch(const EnvironmentReader& environment, std::string_view stdin_text, int log_fd);

}  // namespace podlane::cni
