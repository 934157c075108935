// `podlanectl bench …`: registers the command with the program's options. Its callback leaves the exit status in `status`.
#pragma once

#include <CLI/CLI.hpp>

namespace podlane::ctl {

void register_bench(CLI::App& app, int& status);

}  // namespace podlane::ctl
