// The test kubelet's control socket (README.md): AF_UNIX SOCK_SEQPACKET, one JSON request and one JSON answer for each
// connection, each connection on a thread of its own.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "lib/base/unique_fd.hpp"
#include "lib/json/json.hpp"
#include "tests/kubelet/device_manager.hpp"
#include "tests/kubelet/pod_manager.hpp"

namespace podlane::testkubelet {

inline constexpr std::size_t kMaxControlBytes = 196608;

// {"op":…} -> {"ok":true,…} or {"ok":false,"message":…}.
json::Value handle(const json::Value& request, DeviceManager& devices, PodManager& pods);

class ControlServer {
 public:
  using Handler = std::function<json::Value(const json::Value&)>;
  static Result<std::unique_ptr<ControlServer>> start(const std::string& path, Handler handler);
  ~ControlServer();  // Waits for requests under way.

 private:
  ControlServer(UniqueFd listener, std::string path, Handler handler);
  void run();

  UniqueFd listener_;
  const std::string path_;
  const Handler handler_;
  std::atomic<int> busy_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// One request to a running test kubelet.
Result<json::Value> control_call(const std::string& socket, const json::Value& request);

// `test-kubelet ctl`: words to a request, the answer printed. The exit code for the shell.
int control_main(const std::string& socket, const std::vector<std::string>& words);

}  // namespace podlane::testkubelet
