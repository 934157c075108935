// The commands of podlanectl. Each adds its sub-command with its options to the application and gives it a callback that
// sets the exit status. One registration function per command; main.cpp calls them all.
#pragma once

#include <CLI/CLI.hpp>

namespace podlane::ctl {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;  // CLI11's own errors too.

void register_lanes(CLI::App& app, int& status);
void register_onload(CLI::App& app, int& status);
void register_doctor(CLI::App& app, int& status);

}  // namespace podlane::ctl
