// A node for the plugin's tests: scratch directories and pod namespace, calls as libcni makes them, and a small stand-in
// for the device plugin that speaks docs/control-protocol.md. The real one can
// take its place: CniNode::socket says where the plugin looks for it.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lib/json/json.hpp"
#include "lib/lane/control_msg.hpp"
#include "tests/testlib/testlib.hpp"

namespace podlane::test {

// Stands in for podlane-deviceplugin at the control socket.
class DevicePluginStandIn {
 public:
  explicit DevicePluginStandIn(std::string socket_path);
  ~DevicePluginStandIn();

  // What attach answers with. Set before the call.
  void set_plans(std::vector<lane::LanePlan> plans);
  void refuse(const std::string& op, lane::ControlCode code, const std::string& message);  // From now on.
  void drop_connections_of(const std::string& op);  // Closes without an answer.
  void vanish_at(const std::string& op);            // The same, and the socket file is gone then.
  void answer_late(const std::string& op, std::chrono::milliseconds after);

  std::vector<std::string> requests();  // "attach", "commit", …, in order.
  std::vector<lane::Attachment> attachments();
  lane::AttachRequest last_attach();
  std::vector<lane::LaneMade> last_lanes();  // Of commit or check.
  bool netns_came() const { return netns_came_; }

 private:
  void serve();
  lane::ControlAnswer answer(const lane::ControlRequest& request, bool with_netns);

  std::string path_;
  UniqueFd listener_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> netns_came_{false};
  std::mutex mutex_;
  std::vector<lane::LanePlan> plans_;
  std::map<std::string, lane::ControlRefusal> refusals_;
  std::string dropped_op_, vanishing_op_, late_op_;
  std::chrono::milliseconds late_by_{0};
  std::vector<std::string> requests_;
  std::vector<lane::Attachment> attachments_;
  lane::AttachRequest last_attach_;
  std::vector<lane::LaneMade> last_lanes_;
  std::thread thread_;
};

struct CniAnswer {
  int status = -1;
  std::string out;
  json::Value json;  // Of out; null when there is none.
  int code() const { return json.is_object() && json.contains("code") ? json["code"].get<int>() : 0; }
  std::string message() const { return json.is_object() && json.contains("msg") ? json["msg"].get<std::string>() : ""; }
};

class CniNode {
 public:
  CniNode();
  ~CniNode();

  json::Value conf(const std::string& version = "1.1.0") const;             // Chained, without prevResult.
  json::Value with_prev(json::Value conf) const;                            // With the primary plugin's result.
  json::Value annotate(json::Value conf, const json::Value& annotations = {{"podlane.io/lanes", "feed"}}) const;
  std::vector<std::string> environment(const std::string& command) const;   // Of the pod, CNI_IFNAME eth0.
  CniAnswer call(const std::string& command, const json::Value& conf, const std::vector<std::string>& more = {}) const;
  // Under strace, killed before its n-th `syscall`. False: it ended before that.
  bool call_killed_at(const std::string& command, const json::Value& conf, const std::string& syscall, int n) const;

  std::string host_local_dir() const { return dir + "/host-local"; }
  lane::LanePlan plan(int n, bool with_ipam) const;  // Lane n of pool feed, 10.9.0.0/24 and fd00:9::/64.
  // Everything that must not be there after DEL; empty when clean.
  std::string leaks() const;
  std::vector<std::string> files(const std::string& folder) const;  // Names below dir/folder, locks included.

  std::string dir;
  std::string socket;
  std::string container_id;
  ScratchNetns pod;
  std::string pod_path;  // Of the namespace, also when it is gone.
};

std::string program();  // The built plugin.

}  // namespace podlane::test
