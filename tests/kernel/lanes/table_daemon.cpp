// A real LaneTable in a process of its own, so that the tests can kill it. Stands where podlane-deviceplugin does, with
// lines on standard input in place of the kubelet, and a file in place of pod-resources.
//
//   table-daemon NETNS CONFIG RUN_DIR STATE_DIR BPFFS_DIR PODS_FILE RECONCILE_MS RESERVED_MS
//   PODS_FILE: lines "namespace pod container pool device"; missing: the kubelet does not answer.
//   in:  allocate POOL ID…   pre-start POOL ID…   devices POOL   report   counters   time POOL COUNT   quit
//   out: one line each, "ok …" or "error …"; first of all "ok ready" or "error …".
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

#include "deviceplugin/lanes/lane_table.hpp"
#include "lib/base/file.hpp"

namespace {

using namespace podlane;
using namespace podlane::dp;

Result<std::vector<PodDevices>> read_pods(const std::string& path) {
  std::ifstream in(path);
  if (!in) return fail(Errc::kUnavailable, "no file " + path);
  std::vector<PodDevices> pods;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    PodDevices pod;
    std::string device;
    if (words >> pod.name_space >> pod.pod >> pod.container >> pod.pool >> device) {
      pod.device_ids.push_back(device);
      pods.push_back(std::move(pod));
    }
  }
  return pods;
}

std::string failed(const Error& error) { return "error " + error.message(); }

std::string allocate(LaneTable& table, const std::string& pool, const std::vector<std::string>& ids) {
  const auto answer = table.allocate(pool, ids);
  if (!answer) return failed(answer.error());
  return "ok " + answer->host_path + " " + answer->container_path + " " + answer->environment.front().first;
}

// Allocates free devices one by one; prints p50, p99 and maximum in microseconds.
std::string time_allocate(LaneTable& table, const std::string& pool, std::size_t count) {
  std::vector<double> times;
  for (std::size_t at = 0; at < count; ++at) {
    const auto start = std::chrono::steady_clock::now();
    const auto answer = table.allocate(pool, {pool + "-" + std::to_string(at)});
    if (!answer) return failed(answer.error());
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  std::ostringstream out;
  out << "ok " << times[count / 2] << " " << times[count * 99 / 100] << " " << times.back();
  return out.str();
}

std::string answer(LaneTable& table, const std::string& line) {
  std::istringstream words(line);
  std::string verb, pool;
  words >> verb >> pool;
  std::vector<std::string> rest;
  for (std::string word; words >> word;) rest.push_back(word);
  if (verb == "allocate") return allocate(table, pool, rest);
  if (verb == "pre-start") {
    const auto done = table.pre_start(pool, rest);
    return done ? "ok" : failed(done.error());
  }
  if (verb == "devices") {
    std::string text = "ok";
    for (const DeviceState& device : table.devices(pool)) {
      text += " " + device.id + (device.healthy ? "" : "!(" + device.why + ")");
    }
    return text;
  }
  if (verb == "report") {
    std::string text = "ok";
    for (const LaneReport& lane : table.report()) {
      text += " " + lane.device + "=" + lane.state;
      for (const auto& [name, value] : lane.kernel_counters) text += "," + name + ":" + std::to_string(value);
    }
    return text;
  }
  if (verb == "time") return time_allocate(table, pool, std::stoul(rest.at(0)));
  return "error unknown verb " + verb;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) return 2;
  const int netns = ::open(argv[1], O_RDONLY | O_CLOEXEC);
  if (netns < 0 || ::setns(netns, CLONE_NEWNET) != 0) return 3;
  Log log(STDERR_FILENO, "table");
  const auto text = read_file(argv[2]);
  if (!text) return 4;
  const auto config = parse_config(*text);
  if (!config) {
    std::cout << failed(config.error()) << std::endl;
    return 1;
  }
  LaneTableOptions options{.run_dir = argv[3], .state_dir = argv[4], .bpffs_dir = argv[5]};
  options.reconcile_every = std::chrono::milliseconds(std::stoi(argv[7]));
  options.nic_look_every = std::chrono::milliseconds(100);
  options.reserved_timeout = std::chrono::milliseconds(std::stoi(argv[8]));
  const std::string pods = argv[6];
  auto table = LaneTable::start(*config, options, [pods] { return read_pods(pods); }, log);
  if (!table) {
    std::cout << failed(table.error()) << std::endl;
    return 1;
  }
  std::cout << "ok ready" << std::endl;
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    std::cout << answer(**table, line) << std::endl;
  }
  return 0;
}
