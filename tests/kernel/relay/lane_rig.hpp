// LaneRig: one real lane for the tests of relay and libpodlane. A pod namespace with a TUN "lane0" and the lane's veth
// "w0"; a peer namespace with the veth's far end "p0", a plain kernel host. XDP on w0 redirects everything into the lane's
// socket, which the real HandoverServer makes and hands over. Addresses: lane 10.9.0.5 and fd09::5, peer 10.9.0.1 and fd09::1.
#pragma once

#include <sys/socket.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "deviceplugin/handover/handover_server.hpp"
#include "lib/podlane/lane_port.hpp"
#include "relay/lane_worker.hpp"
#include "tests/testlib/testlib.hpp"
#include "tests/testlib/this_kernel.hpp"

namespace podlane::test {

using namespace std::chrono_literals;

struct RigOptions {
  std::uint32_t frames = 4096;
  std::uint32_t ring_size = 2048;
  std::uint32_t mtu = 1500;
  std::uint32_t tun_queue = 500;  // Packets.
  lane::HandoverStyle style = finished_sockets() ? lane::HandoverStyle::kFinished : lane::HandoverStyle::kUnbound;
  lane::Mode mode = lane::Mode::kInterrupt;
  bool peer_known = true;  // The hand-over names the peer's MAC.
  bool generic_xdp = false;
  bool peer_checksums = true;  // false: the peer leaves checksums to its device, which does nothing.
};

class LaneRig final : public dp::HandoverOwner {
 public:
  explicit LaneRig(RigOptions options = {});
  ~LaneRig() override;

  void start_server();
  void stop_server() { server_.reset(); }

  // Hand-over in the pod's namespace, from this process.
  std::unique_ptr<LanePort> open_port();
  std::string directory() const { return directory_ + "/0"; }  // Of the lane: holds handover.sock.
  std::string lanes_directory() const { return directory_; }
  void remove_device() { pod.ip("link del w0"); }
  void remove_tun() { pod.ip("link del lane0"); }

  std::uint64_t reported(const std::string& counter) const;  // What the session's stats last said.
  int resolves() const;
  int sessions() const;
  int resumes() const;
  void answer_resolves(bool on) { answer_resolves_ = on; }

  // Sockets in the namespaces; used from any thread afterwards.
  UniqueFd pod_socket(int family, int type) const { return socket_in(pod, family, type); }
  UniqueFd peer_socket(int family, int type) const { return socket_in(peer, family, type); }

  ScratchNetns pod{"plp"}, peer{"plw"};
  MacAddress pod_mac{}, peer_mac{};

  // HandoverOwner.
  Result<dp::HandoverLane> lane_for_handover(const std::string& device) override;
  Result<void> install_socket(const std::string& device, int xsk_fd) override;
  void session_opened(const std::string& device, const lane::InForce& in_force, bool resumed) override;
  void session_closed(const std::string&) override {}
  void refused(const std::string&, const std::string&) override {}
  void resolve(const std::string& device, const std::string& ip) override;
  void stats(const std::string& device, std::vector<std::pair<std::string, std::uint64_t>> counters) override;

 private:
  static UniqueFd socket_in(const ScratchNetns& netns, int family, int type);
  void attach_redirect();

  RigOptions options_;
  std::string directory_;
  UniqueFd log_fd_, map_, program_, link_;
  Log log_;
  dp::HandoverLane lane_;
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> reported_;
  int resolves_ = 0, sessions_ = 0, resumes_ = 0;
  std::atomic<bool> answer_resolves_{true};
  std::unique_ptr<dp::HandoverServer> server_;
};

// A lane with its relay worker and control thread in this process.
class RunningRelay {
 public:
  RunningRelay(LaneRig& rig, xsk::WaitMode mode);
  ~RunningRelay() { end(); }
  void end();  // As SIGTERM: drains.
  LanePort& port() { return *port_; }
  std::uint64_t count(Counter counter) const { return port_->counters.get(counter); }

 private:
  std::unique_ptr<LanePort> port_;
  std::unique_ptr<relay::LaneWorker> worker_;
  std::atomic<bool> stop_{false};
  std::thread control_;
};

// A child process in a namespace as uid 65534 without any capability; its stderr and stdout are collected.
class Child {
 public:
  Child(const ScratchNetns& netns, const std::vector<std::string>& argv, const std::vector<std::string>& environment = {});
  ~Child();
  void signal(int number) const;
  // Exit status, or 128 + signal; -1 when it does not end in time.
  int wait(std::chrono::milliseconds deadline = 10s);
  std::string output();  // So far.
  bool is_running();

 private:
  pid_t pid_ = -1;
  int status_ = -1;
  UniqueFd output_;
  std::string text_;
};

// A built program: PODLANE_BIN, which ctest sets.
std::string program(const std::string& name);

// Address of a lane or peer as a socket address.
struct Address {
  Address(const std::string& ip, std::uint16_t port);
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
void bind_to(const UniqueFd& socket, const std::string& ip, std::uint16_t port);
std::uint16_t port_of(const UniqueFd& socket);
// Sends and waits for the datagram; empty when it does not come within the timeout.
std::string receive(const UniqueFd& socket, std::chrono::milliseconds timeout = 2s);
// Sums of docs/counters-relay.md; a failed expectation names the counters.
void expect_sums(const Counters& counters);
void expect_no_leak(const LanePort& port);

}  // namespace podlane::test
