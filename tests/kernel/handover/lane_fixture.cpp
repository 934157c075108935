#include "tests/kernel/handover/lane_fixture.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "lib/base/file.hpp"
#include "lib/net/netns.hpp"
#include "lib/net/tun.hpp"

extern char** environ;

namespace podlane::test {

namespace {

constexpr std::uint16_t kEtherType = 0x88b5;  // For local experiments (IEEE 802).

int bpf(int command, bpf_attr& attributes) {
  return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof(attributes)));
}

void check(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error(what + ": " + std::strerror(errno));
}

int index_in(const ScratchNetns& netns, const std::string& ifname) {
  unsigned index = 0;
  netns.inside([&] { index = ::if_nametoindex(ifname.c_str()); });
  check(index != 0, "index of " + ifname);
  return static_cast<int>(index);
}

}  // namespace

int open_descriptors() {
  int count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

Redirect::Redirect(const ScratchNetns& netns, const std::string& ifname) {
  bpf_attr map{};
  map.map_type = BPF_MAP_TYPE_XSKMAP;
  map.key_size = map.value_size = 4;
  map.max_entries = 1;
  map_.reset(bpf(BPF_MAP_CREATE, map));
  check(map_.valid(), "XSKMAP");
  // return bpf_redirect_map(&map, 0, XDP_PASS);
  const bpf_insn program[] = {
      {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .off = 0, .imm = map_.get()},
      {},
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .src_reg = 0, .off = 0, .imm = 0},
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .src_reg = 0, .off = 0, .imm = XDP_PASS},
      {.code = BPF_JMP | BPF_CALL, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = BPF_FUNC_redirect_map},
      {.code = BPF_JMP | BPF_EXIT},
  };
  bpf_attr load{};
  load.prog_type = BPF_PROG_TYPE_XDP;
  load.insns = reinterpret_cast<std::uintptr_t>(program);
  load.insn_cnt = std::size(program);
  load.license = reinterpret_cast<std::uintptr_t>("GPL");
  program_.reset(bpf(BPF_PROG_LOAD, load));
  check(program_.valid(), "XDP program");
  netns.inside([&] {
    bpf_attr link{};
    link.link_create.prog_fd = static_cast<std::uint32_t>(program_.get());
    link.link_create.target_ifindex = ::if_nametoindex(ifname.c_str());
    link.link_create.attach_type = BPF_XDP;
    link.link_create.flags = 1U << 2;  // XDP_FLAGS_DRV_MODE
    link_.reset(bpf(BPF_LINK_CREATE, link));
    check(link_.valid(), "XDP link on " + ifname);
  });
}

bool Redirect::put(int xsk_fd) const {
  const std::uint32_t key = 0, value = static_cast<std::uint32_t>(xsk_fd);
  bpf_attr update{};
  update.map_fd = static_cast<std::uint32_t>(map_.get());
  update.key = reinterpret_cast<std::uintptr_t>(&key);
  update.value = reinterpret_cast<std::uintptr_t>(&value);
  return bpf(BPF_MAP_UPDATE_ELEM, update) == 0;
}

void TestOwner::set(const std::string& device, dp::HandoverLane lane, const Redirect* redirect) {
  const std::lock_guard lock(mutex_);
  lanes_.insert_or_assign(device, Entry{std::move(lane), redirect});
}
void TestOwner::unset(const std::string& device, Errc reason) {
  const std::lock_guard lock(mutex_);
  reason_ = reason;
  lanes_.erase(device);
}
Result<dp::HandoverLane> TestOwner::lane_for_handover(const std::string& device) {
  const std::lock_guard lock(mutex_);
  const auto it = lanes_.find(device);
  if (it == lanes_.end()) return fail(reason_, "no ADD yet");
  return it->second.lane;
}
Result<void> TestOwner::install_socket(const std::string& device, int xsk_fd) {
  const std::lock_guard lock(mutex_);
  const auto it = lanes_.find(device);
  if (it == lanes_.end() || it->second.redirect == nullptr) return fail(Errc::kNotFound, "no such lane");
  if (!it->second.redirect->put(xsk_fd)) return fail_errno("XSKMAP");
  return {};
}
void TestOwner::session_opened(const std::string& device, const lane::InForce&, bool resumed) {
  note((resumed ? "resumed " : "opened ") + device);
}
void TestOwner::session_closed(const std::string& device) { note("closed " + device); }
void TestOwner::refused(const std::string& device, const std::string& code) { note("refused " + device + " " + code); }
void TestOwner::resolve(const std::string& device, const std::string& ip) { note("resolve " + device + " " + ip); }
void TestOwner::stats(const std::string& device, std::vector<std::pair<std::string, std::uint64_t>> counters) {
  for (const auto& [name, value] : counters) note("stats " + device + " " + name + "=" + std::to_string(value));
}
void TestOwner::note(std::string event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
}
std::vector<std::string> TestOwner::events() const {
  const std::lock_guard lock(mutex_);
  return events_;
}
int TestOwner::count(const std::string& event) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count(events_.begin(), events_.end(), event));
}

Probe::Probe(const std::string& netns_path, const std::string& socket_path) {
  int input[2], output[2];
  check(::pipe2(input, O_CLOEXEC) == 0 && ::pipe2(output, O_CLOEXEC) == 0, "pipe2");
  UniqueFd input_read(input[0]), output_write(output[1]);
  input_.reset(input[1]);
  output_.reset(output[0]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input_read.get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, output_write.get(), 1);
  std::string words[] = {HANDOVER_PROBE, netns_path, socket_path};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  const int error = ::posix_spawn(&pid_, HANDOVER_PROBE, &actions, nullptr, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  check(error == 0, "handover-probe");
}

Probe::~Probe() {
  input_.reset();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

void Probe::kill() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string Probe::line(std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  for (;;) {
    if (const std::size_t at = pending_.find('\n'); at != std::string::npos) {
      const std::string text = pending_.substr(0, at);
      pending_.erase(0, at + 1);
      return text;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd entry{.fd = output_.get(), .events = POLLIN, .revents = 0};
    if (left <= 0 || ::poll(&entry, 1, static_cast<int>(left)) <= 0) return "(nothing printed in time)";
    char chunk[4096];
    const ssize_t n = ::read(output_.get(), chunk, sizeof(chunk));
    if (n <= 0) return pending_;
    pending_.append(chunk, static_cast<std::size_t>(n));
  }
}

RawClient::RawClient(const ScratchNetns& netns, const std::string& socket_path) {
  netns.inside([&] {
    auto socket = seqpacket_connect(socket_path, 5s);
    if (!socket) throw std::runtime_error(socket.error().message());
    socket_ = std::move(*socket);
  });
}

bool RawClient::send(const std::string& text, const std::vector<int>& descriptors) {
  return seqpacket_send(socket_.get(), text, descriptors, 5s).has_value();
}

std::string RawClient::receive(std::chrono::milliseconds timeout) {
  auto received = seqpacket_receive(socket_.get(), lane::kHandoverMessageMaxBytes, lane::kHandoverMaxFds, timeout);
  if (!received) return "";
  fds = std::move(received->fds);
  return received->text;
}

std::string RawClient::code() {
  const std::string text = receive(15s);
  const auto message = lane::decode_handover(text);
  if (!message) return text;
  const auto* refusal = std::get_if<lane::HandoverRefusal>(&*message);
  return refusal == nullptr ? text : refusal->code;
}

bool RawClient::closed(std::chrono::milliseconds timeout) {
  auto received = seqpacket_receive(socket_.get(), lane::kHandoverMessageMaxBytes, lane::kHandoverMaxFds, timeout);
  return received ? received->text.empty() : received.error().code() == Errc::kGone;
}

UniqueFd make_memfd(std::size_t size, unsigned flags, int seals, bool touch) {
  UniqueFd fd(::memfd_create("umem", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  check(fd.valid() && ::ftruncate(fd.get(), static_cast<off_t>(size)) == 0, "memfd");
  if (touch) check(::fallocate(fd.get(), 0, 0, static_cast<off_t>(size)) == 0, "fallocate");
  check(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0, "F_ADD_SEALS");
  return fd;
}

HandoverTest::HandoverTest()
    : log_fd_(::open("/dev/null", O_WRONLY | O_CLOEXEC)), log_(log_fd_.get(), "test", LogLevel::kDebug) {
  const VethPair nic(daemon_, wire_, "nic", "nicfar");
  const VethPair pod(pod_, wire_, "podnear", "podfar");
  nic_redirect_.emplace(daemon_, "nic");
  pod_redirect_.emplace(pod_, "podnear");
  make_tun("lane0");
  directory_ = "/tmp/" + random_name("handover-");
  check(::mkdir(directory_.c_str(), 0755) == 0, "mkdir");
  fds_at_start_ = open_descriptors();
  start_server();
}

HandoverTest::~HandoverTest() {
  server_.reset();
  EXPECT_EQ(open_descriptors(), fds_at_start_) << "the server leaked descriptors";
  std::filesystem::remove_all(directory_);
}

// The server's threads stay in the namespace of the thread that started it, as the daemon's stay in the host's.
void HandoverTest::start_server() {
  daemon_.inside([&] {
    auto server = dp::HandoverServer::start(owner_, log_);
    if (!server) throw std::runtime_error(server.error().message());
    server_ = std::move(*server);
  });
}

void HandoverTest::make_tun(const std::string& name, bool multi_queue) {
  pod_.inside([&] {
    auto made = net::tun_create({.name = name, .multi_queue = multi_queue});
    if (!made) throw std::runtime_error(made.error().message());
  });
}

dp::HandoverLane HandoverTest::lane_of(const std::string& device, lane::Kind kind, const std::string& tun_name) {
  dp::HandoverLane lane;
  lane.description.pool = "feed";
  lane.description.device = device;
  lane.description.kind = kind;
  lane.description.ifname = tun_name;
  lane.description.ifindex = index_in(pod_, tun_name);
  lane.description.mtu = 1500;
  lane.description.addresses = {"10.9.0.5/24"};
  lane.netns_cookie = *net::netns_cookie(pod_.fd());
  if (kind == lane::Kind::kTun) return lane;
  const bool queue = kind == lane::Kind::kQueue;
  lane.socket_in_pod_netns = !queue;
  lane.description.mac = "02:00:00:00:00:01";
  lane.description.path = lane::Path::kDirect;
  lane.description.xsk = lane::XskDescription{.netdev = queue ? "nic" : "podnear",
                                              .netdev_ifindex = queue ? index_in(daemon_, "nic") : index_in(pod_, "podnear"),
                                              .rx_size = 256, .tx_size = 256, .fill_size = 512, .completion_size = 256,
                                              .umem = {.frames = 512, .frame_size_bytes = 2048}};
  return lane;
}

std::string HandoverTest::serve(const std::string& device, dp::HandoverLane lane, const Redirect* redirect) {
  owner_.set(device, std::move(lane), redirect);
  const std::string directory = directory_ + "/" + device;
  auto served = server_->serve(device, directory);
  if (!served) throw std::runtime_error(served.error().message());
  return directory + "/handover.sock";
}

std::string HandoverTest::serve_queue_lane(const std::string& device, lane::HandoverStyle style) {
  dp::HandoverLane lane = lane_of(device, lane::Kind::kQueue, "lane0");
  lane.style = style;
  return serve(device, std::move(lane), &*nic_redirect_);
}

std::string HandoverTest::serve_veth_lane(const std::string& device, lane::HandoverStyle style) {
  dp::HandoverLane lane = lane_of(device, lane::Kind::kVeth, "lane0");
  lane.style = style;
  return serve(device, std::move(lane), &*pod_redirect_);
}

std::string HandoverTest::serve_tun_lane(const std::string& device, const std::string& tun_name, std::uint32_t queues) {
  dp::HandoverLane lane = lane_of(device, lane::Kind::kTun, tun_name);
  lane.tun_queues = queues;
  lane.tun_multi_queue = queues > 1;
  return serve(device, std::move(lane), nullptr);
}

int HandoverTest::frames_echoed(const std::string& far, int count, std::chrono::milliseconds deadline) {
  std::set<std::uint32_t> back;
  wire_.inside([&] {
    const UniqueFd socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(kEtherType)));
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(kEtherType);
    address.sll_ifindex = static_cast<int>(::if_nametoindex(far.c_str()));
    check(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, "bind " + far);
    unsigned char frame[64] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, kEtherType >> 8, kEtherType & 0xff};
    std::uint32_t sent = 0;
    eventually(deadline, [&] {
      // Some at a time, so that no ring or queue on the way overflows.
      for (int i = 0; i < 16 && sent < static_cast<std::uint32_t>(count); ++i, ++sent) {
        std::memcpy(frame + 14, &sent, sizeof(sent));
        if (::send(socket.get(), frame, sizeof(frame), 0) < 0) break;
      }
      unsigned char got[128];
      for (ssize_t n; (n = ::recv(socket.get(), got, sizeof(got), 0)) > 0;) {
        std::uint32_t serial = 0;
        std::memcpy(&serial, got + 14, sizeof(serial));
        if (n == sizeof(frame) && std::memcmp(got, frame + 6, 6) == 0) back.insert(serial);
      }
      return back.size() == static_cast<std::size_t>(count);
    });
  });
  return static_cast<int>(back.size());
}

}  // namespace podlane::test
