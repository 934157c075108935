// A node for the tests of the lane table: a host namespace with a NIC (one end of a veth pair whose other end is the wire's
// other host), a table-daemon that can be killed, and pods. One test at a time; leaves nothing.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/lane/control_msg.hpp"
#include "tests/testlib/testlib.hpp"
#include "tests/testlib/this_kernel.hpp"

namespace podlane::test {

// A child with its standard input and output; killed at the end.
class Child {
 public:
  explicit Child(const std::vector<std::string>& argv);
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void kill();  // SIGKILL, and waits.
  std::string line(std::chrono::milliseconds timeout = std::chrono::seconds(20));  // Throws when none comes.
  void say(const std::string& line);

 private:
  pid_t pid_ = -1;
  UniqueFd in_, out_;
  std::string buffer_;
};

class Node {
 public:
  // pools: JSON of the list; "@" in it stands for the NIC's name.
  explicit Node(const std::string& pools);
  ~Node();
  void start();                                 // Throws with the daemon's words when it refuses.
  std::string try_start();                      // "ok ready" or "error …".
  void kill_daemon() { daemon_.reset(); }       // SIGKILL
  std::string ask(const std::string& line);     // A line of table_daemon.cpp.
  void set_pods(const std::string& lines);      // What pod-resources says.
  void lose_pods();                             // It does not answer.
  lane::ControlAnswer call(const lane::ControlRequest& request, int netns = -1);
  void set_pools(const std::string& pools);  // For the next start.
  void move_to_other_directories();          // As a second podlane on the node.
  void remove_nic() { host_.ip("link del " + nic_); }
  void make_nic();
  std::string lanes_json() const;
  // Queue lanes need finished sockets. On a kernel without, the daemon must say so: true when this was the case here.
  bool refuses_queue_pool();
  std::vector<std::string> left();  // Links with our alias, lane entries, directories, pins but the maps: should be none.

  const ScratchNetns& host() const { return host_; }
  const ScratchNetns& peer() const { return peer_; }
  const std::string& nic() const { return nic_; }
  const std::string& run_dir() const { return run_dir_; }
  std::string state_dir() const { return directory_ + "/state"; }
  const std::string& bpffs() const { return bpffs_; }
  int reconcile_ms = 60000;
  int reserved_ms = 600000;

 private:
  ScratchNetns host_{"plh"};
  ScratchNetns peer_{"plw"};
  std::string nic_ = "nic0";
  std::string directory_, run_dir_, bpffs_, config_, pods_;
  std::vector<std::string> old_bpffs_;
  std::unique_ptr<Child> daemon_;
};

// A sandbox with one TUN per lane, as the CNI plugin makes it.
class Pod {
 public:
  Pod(Node& node, std::string name, std::string container_id);
  lane::ControlAnswer attach(std::vector<std::pair<std::string, std::string>> annotations);
  lane::ControlAnswer commit(const std::vector<std::string>& addresses);  // One lane; makes its TUN.
  // The same with a TUN of this MTU and as many queues.
  lane::ControlAnswer commit(const std::vector<std::string>& addresses, std::uint32_t mtu, std::uint32_t queues);
  lane::ControlAnswer detach();
  lane::ControlAnswer check(const std::vector<std::string>& addresses);
  // The lane's owner runs in it; directory as Allocate answered, index 0.
  std::string open_lane(const std::string& directory);
  void kill_owner() { owner_.reset(); }
  bool pinged_by(const ScratchNetns& from, const std::string& address);

  const lane::Attachment& attachment() const { return attachment_; }
  const lane::PodName& name() const { return name_; }
  std::unique_ptr<ScratchNetns> netns = std::make_unique<ScratchNetns>("plp");

 private:
  lane::LaneMade made(const std::vector<std::string>& addresses) const;
  Node& node_;
  lane::PodName name_;
  lane::Attachment attachment_;
  lane::LanePlan plan_;
  int tun_ifindex_ = 0;
  std::uint32_t mtu_ = 0, queues_ = 1;
  std::unique_ptr<Child> owner_;
};

std::string word(const std::string& line, std::size_t at);  // "" when there are fewer.

}  // namespace podlane::test
