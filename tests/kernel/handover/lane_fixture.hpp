// The set-up of the hand-over tests: a daemon namespace with a "NIC", a pod namespace with a TUN and a veth, a wire
// namespace at the far ends of both; an owner that answers as the lane table would, over real XSKMAPs.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "deviceplugin/handover/handover_server.hpp"
#include "lib/base/log.hpp"
#include "lib/base/seqpacket.hpp"
#include "lib/lane/handover_client.hpp"
#include "tests/testlib/testlib.hpp"
#include "tests/testlib/this_kernel.hpp"

namespace podlane::test {

using namespace std::chrono_literals;

// An XDP program in native mode that redirects every frame into slot 0 of an XSKMAP of its own, else passes it.
class Redirect {
 public:
  Redirect(const ScratchNetns& netns, const std::string& ifname);
  bool put(int xsk_fd) const;

 private:
  UniqueFd map_, program_, link_;
};

class TestOwner final : public dp::HandoverOwner {
 public:
  void set(const std::string& device, dp::HandoverLane lane, const Redirect* redirect);
  void unset(const std::string& device, Errc reason = Errc::kUnavailable);

  Result<dp::HandoverLane> lane_for_handover(const std::string& device) override;
  Result<void> install_socket(const std::string& device, int xsk_fd) override;
  void session_opened(const std::string& device, const lane::InForce& in_force, bool resumed) override;
  void session_closed(const std::string& device) override;
  void refused(const std::string& device, const std::string& code) override;
  void resolve(const std::string& device, const std::string& ip) override;
  void stats(const std::string& device, std::vector<std::pair<std::string, std::uint64_t>> counters) override;

  // "opened feed-0", "resumed feed-0", "closed feed-0", "refused feed-0 busy", "resolve feed-0 10.0.0.1", …
  std::vector<std::string> events() const;
  int count(const std::string& event) const;

 private:
  void note(std::string event);
  struct Entry {
    dp::HandoverLane lane;
    const Redirect* redirect;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Entry> lanes_;
  Errc reason_ = Errc::kUnavailable;  // Why a lane that is not in lanes_ is refused.
  std::vector<std::string> events_;
};

// The program handover-probe as a child.
class Probe {
 public:
  Probe(const std::string& netns_path, const std::string& socket_path);
  ~Probe();
  void kill();
  std::string line(std::chrono::milliseconds deadline = 10s);  // The next line it prints; empty at its end.

 private:
  pid_t pid_ = -1;
  UniqueFd input_, output_;
  std::string pending_;
};

// A raw client, inside the pod's namespace (or another's).
class RawClient {
 public:
  RawClient(const ScratchNetns& netns, const std::string& socket_path);
  bool send(const std::string& text, const std::vector<int>& fds = {});
  // Text of the next message; "" at the end or when none comes in time; its descriptors are in fds.
  std::string receive(std::chrono::milliseconds timeout = 5s);
  std::string code();  // Of the error that comes next; the whole text when it is none.
  bool closed(std::chrono::milliseconds timeout = 5s);
  void close() { socket_.reset(); }
  std::vector<UniqueFd> fds;

 private:
  UniqueFd socket_;
};

UniqueFd make_memfd(std::size_t size, unsigned flags, int seals, bool touch = true);
constexpr int kSeals = 0x7;  // F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW

class HandoverTest : public ::testing::Test {
 protected:
  HandoverTest();
  ~HandoverTest() override;

  void start_server();
  void stop_server() { server_.reset(); }
  // Registers the lane with the owner and serves it; returns the socket's path.
  std::string serve_queue_lane(const std::string& device, lane::HandoverStyle style);
  std::string serve_veth_lane(const std::string& device, lane::HandoverStyle style);
  std::string serve_tun_lane(const std::string& device, const std::string& tun_name, std::uint32_t queues = 1);
  std::string serve(const std::string& device, dp::HandoverLane lane, const Redirect* redirect);
  dp::HandoverLane lane_of(const std::string& device, lane::Kind kind, const std::string& tun_name);
  void make_tun(const std::string& name, bool multi_queue = false);

  // Sends frames into the far end and counts what comes back; far is "nicfar" or "podfar".
  int frames_echoed(const std::string& far, int count, std::chrono::milliseconds deadline = 5s);
  bool wait_event(const std::string& event, int times = 1) {
    return eventually(5s, [&] { return owner_.count(event) >= times; });
  }

  ScratchNetns daemon_, pod_, wire_;
  std::optional<Redirect> nic_redirect_, pod_redirect_;
  std::string directory_;
  UniqueFd log_fd_;
  Log log_;
  TestOwner owner_;
  std::unique_ptr<dp::HandoverServer> server_;
  int fds_at_start_ = 0;
};

int open_descriptors();

// What the daemon gives on this kernel where nothing forces the other.
inline lane::HandoverStyle usual_style() {
  return finished_sockets() ? lane::HandoverStyle::kFinished : lane::HandoverStyle::kUnbound;
}
inline constexpr char kNoFinishedSockets[] = "without finished sockets";

}  // namespace podlane::test
