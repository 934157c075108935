// bench_watch: counts the system calls and the CPU time of running processes while a command runs.
//   bench_watch --pid 1234 --pid 1235 -- COMMAND…
// The command's output passes through; then one JSON line: {"system_calls":N,"cpu_percent":X,"seconds":S}. Needs root and
// the tracing file system (raw_syscalls:sys_enter through perf_event_open(2)).
#include <dirent.h>
#include <linux/perf_event.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/base/unique_fd.hpp"
#include "tests/bench/samples.hpp"

extern char** environ;

namespace podlane::bench {
namespace {

std::uint64_t tracepoint_id() {
  std::ifstream file("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id");
  std::uint64_t id = 0;
  if (!(file >> id)) throw std::runtime_error("no raw_syscalls:sys_enter: is tracefs mounted at /sys/kernel/tracing?");
  return id;
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads;
  const std::string path = "/proc/" + std::to_string(pid) + "/task";
  DIR* directory = ::opendir(path.c_str());
  if (directory == nullptr) throw std::runtime_error("no process " + std::to_string(pid));
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] != '.') threads.push_back(std::stoi(entry->d_name));
  }
  ::closedir(directory);
  return threads;
}

std::vector<UniqueFd> open_counters(const std::vector<pid_t>& pids) {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_TRACEPOINT;
  attributes.config = tracepoint_id();
  std::vector<UniqueFd> counters;
  for (const pid_t pid : pids) {
    for (const pid_t thread : threads_of(pid)) {
      counters.emplace_back(
          static_cast<int>(::syscall(SYS_perf_event_open, &attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC)));
      if (!counters.back().valid()) throw std::runtime_error("perf_event_open for thread " + std::to_string(thread));
    }
  }
  return counters;
}

std::uint64_t sum(const std::vector<UniqueFd>& counters) {
  std::uint64_t total = 0, value = 0;
  for (const UniqueFd& counter : counters) {
    if (::read(counter.get(), &value, sizeof(value)) == sizeof(value)) total += value;
  }
  return total;
}

// utime and stime of all threads, living and dead (proc(5), /proc/pid/stat, fields 14 and 15), in seconds.
double cpu_seconds(const std::vector<pid_t>& pids) {
  double ticks = 0;
  for (const pid_t pid : pids) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(file, line);
    std::istringstream fields(line.substr(line.rfind(')') + 2));
    std::string skipped;
    for (int field = 3; field < 14; ++field) fields >> skipped;
    double user = 0, system = 0;
    fields >> user >> system;
    ticks += user + system;
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

int run_command(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  if (::posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0) {
    throw std::runtime_error("cannot run " + command[0]);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run(int argc, char** argv) {
  std::vector<pid_t> pids;
  std::vector<std::string> command;
  CLI::App app("Counts system calls and CPU time of processes while a command runs");
  app.add_option("--pid", pids);
  app.add_option("command", command)->required();
  app.positionals_at_end();
  CLI11_PARSE(app, argc, argv);
  const std::vector<UniqueFd> counters = open_counters(pids);
  const double cpu_before = cpu_seconds(pids);
  const std::uint64_t calls_before = sum(counters);
  const std::int64_t start_ns = now_ns();
  const int status = run_command(command);
  const double seconds = static_cast<double>(now_ns() - start_ns) / 1e9;
  std::printf("{\"system_calls\":%llu,\"cpu_percent\":%.1f,\"seconds\":%.3f}\n",
              static_cast<unsigned long long>(sum(counters) - calls_before),
              100 * (cpu_seconds(pids) - cpu_before) / seconds, seconds);
  return status;
}

}  // namespace
}  // namespace podlane::bench

int main(int argc, char** argv) {
  try {
    return podlane::bench::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_watch: %s\n", failure.what());
    return 1;
  }
}
