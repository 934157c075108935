#include "tests/kernel/relay/lane_rig.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "lib/net/tun.hpp"
#include "lib/podlane/control.hpp"

namespace podlane::test {

namespace {

constexpr const char* kDevice = "feed-0";

void check(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error(what + ": " + std::strerror(errno));
}

int bpf(int command, bpf_attr& attributes) {
  return static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof(attributes)));
}

MacAddress mac_of(const ScratchNetns& netns, const std::string& ifname) {
  const std::string text = netns.ip("-br link show " + ifname);
  for (std::size_t at = 0; at + 17 <= text.size(); ++at) {
    if (const auto mac = parse_mac(text.substr(at, 17))) return *mac;
  }
  throw std::runtime_error("no MAC in " + text);
}

std::string text_of(const MacAddress& mac) {
  char text[18];
  std::snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
  return text;
}

int index_in(const ScratchNetns& netns, const std::string& ifname) {
  unsigned index = 0;
  netns.inside([&] { index = ::if_nametoindex(ifname.c_str()); });
  return static_cast<int>(index);
}

}  // namespace

LaneRig::LaneRig(RigOptions options)
    : options_(options), log_fd_(::open("/dev/null", O_WRONLY | O_CLOEXEC)), log_(log_fd_.get(), "test") {
  VethPair pair(pod, peer, "w0", "p0");
  for (const auto& [netns, name] : {std::pair(&pod, "w0"), std::pair(&peer, "p0")}) {
    const bool on = netns == &peer && !options.peer_checksums;
    must_run("ip netns exec " + netns->name() + " ethtool -K " + name + (on ? " tx on" : " tx off"));
    netns->ip(std::string("link set ") + name + " addrgenmode none");
  }
  pod_mac = mac_of(pod, "w0");
  peer_mac = mac_of(peer, "p0");
  peer.ip("addr add 10.9.0.1/24 dev p0");
  peer.ip("addr add fd09::1/64 dev p0 nodad");
  peer.ip("neigh add 10.9.0.5 lladdr " + text_of(pod_mac) + " dev p0 nud permanent");
  peer.ip("neigh add fd09::5 lladdr " + text_of(pod_mac) + " dev p0 nud permanent");
  pod.inside([&] { check(net::tun_create({.name = "lane0"}).has_value(), "tun_create"); });
  pod.ip("link set lane0 mtu " + std::to_string(options.mtu) + " txqueuelen " + std::to_string(options.tun_queue));
  pod.ip("addr add 10.9.0.5/24 dev lane0");
  pod.ip("link set lane0 up");
  pod.ip("addr add fd09::5/64 dev lane0 nodad");
  attach_redirect();

  std::string path = (std::filesystem::temp_directory_path() / "pltXXXXXX").string();
  check(::mkdtemp(path.data()) != nullptr, "mkdtemp");
  directory_ = path;
  ::chmod(directory_.c_str(), 0755);

  lane_.style = options.style;
  lane_.socket_in_pod_netns = true;
  lane_.native_xdp = !options.generic_xdp;
  pod.inside([&] {
    UniqueFd any(::socket(AF_UNIX, SOCK_DGRAM, 0));
    socklen_t size = sizeof(lane_.netns_cookie);
    check(::getsockopt(any.get(), SOL_SOCKET, SO_NETNS_COOKIE, &lane_.netns_cookie, &size) == 0, "SO_NETNS_COOKIE");
  });
  lane::LaneDescription& d = lane_.description;
  d.pool = "feed";
  d.device = kDevice;
  d.kind = lane::Kind::kVeth;
  d.path = lane::Path::kRelay;
  d.mode = options.mode;
  d.ifname = "lane0";
  d.ifindex = index_in(pod, "lane0");
  d.mtu = options.mtu;
  d.mac = text_of(pod_mac);
  d.addresses = {"10.9.0.5/24", "fd09::5/64"};
  d.subnets = {"10.9.0.0/24", "fd09::/64"};
  if (options.peer_known) d.neighbors = {{"10.9.0.1", text_of(peer_mac)}, {"fd09::1", text_of(peer_mac)}};
  lane::XskDescription x;
  x.netdev = "w0";
  x.netdev_ifindex = index_in(pod, "w0");
  x.rx_size = x.tx_size = x.completion_size = options.ring_size;
  x.fill_size = options.ring_size;
  x.umem = {options.frames, 2048, lane::HugePages::kNone};
  d.xsk = x;
  start_server();
}

LaneRig::~LaneRig() {
  server_.reset();
  link_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void LaneRig::start_server() {
  auto server = dp::HandoverServer::start(*this, log_);
  check(server.has_value(), "HandoverServer");
  server_ = std::move(*server);
  check(server_->serve(kDevice, directory()).has_value(), "serve");
}

std::unique_ptr<LanePort> LaneRig::open_port() {
  std::unique_ptr<LanePort> port;
  pod.inside([&] {
    lane::HandoverOptions handover;
    handover.socket_path = directory() + "/handover.sock";
    handover.client = "test";
    auto opened = LanePort::open(handover, std::chrono::steady_clock::now() + 10s);
    if (!opened) throw std::runtime_error(opened.error().message());
    port = std::move(*opened);
  });
  return port;
}

void LaneRig::attach_redirect() {
  bpf_attr map{};
  map.map_type = BPF_MAP_TYPE_XSKMAP;
  map.key_size = map.value_size = 4;
  map.max_entries = 1;
  map_.reset(bpf(BPF_MAP_CREATE, map));
  check(map_.valid(), "XSKMAP");
  // return bpf_redirect_map(&map, 0, XDP_DROP): nothing of the lane's may reach the pod's own stack by w0.
  const bpf_insn program[] = {
      {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .off = 0, .imm = map_.get()},
      {},
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .src_reg = 0, .off = 0, .imm = 0},
      {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .src_reg = 0, .off = 0, .imm = XDP_DROP},
      {.code = BPF_JMP | BPF_CALL, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = BPF_FUNC_redirect_map},
      {.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0},
  };
  bpf_attr load{};
  load.prog_type = BPF_PROG_TYPE_XDP;
  load.insns = reinterpret_cast<std::uintptr_t>(program);
  load.insn_cnt = std::size(program);
  load.license = reinterpret_cast<std::uintptr_t>("GPL");
  program_.reset(bpf(BPF_PROG_LOAD, load));
  check(program_.valid(), "XDP program");
  pod.inside([&] {
    bpf_attr link{};
    link.link_create.prog_fd = static_cast<std::uint32_t>(program_.get());
    link.link_create.target_ifindex = ::if_nametoindex("w0");
    link.link_create.attach_type = BPF_XDP;
    link.link_create.flags = options_.generic_xdp ? 1U << 1 : 1U << 2;  // XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE
    link_.reset(bpf(BPF_LINK_CREATE, link));
    check(link_.valid(), "XDP link on w0");
  });
}

Result<dp::HandoverLane> LaneRig::lane_for_handover(const std::string&) { return lane_; }

Result<void> LaneRig::install_socket(const std::string&, int xsk_fd) {
  const std::uint32_t key = 0, value = static_cast<std::uint32_t>(xsk_fd);
  bpf_attr update{};
  update.map_fd = static_cast<std::uint32_t>(map_.get());
  update.key = reinterpret_cast<std::uintptr_t>(&key);
  update.value = reinterpret_cast<std::uintptr_t>(&value);
  if (bpf(BPF_MAP_UPDATE_ELEM, update) != 0) return fail_errno("XSKMAP");
  return {};
}

void LaneRig::session_opened(const std::string&, const lane::InForce&, bool resumed) {
  const std::lock_guard lock(mutex_);
  ++(resumed ? resumes_ : sessions_);
}

void LaneRig::resolve(const std::string& device, const std::string& ip) {
  {
    const std::lock_guard lock(mutex_);
    ++resolves_;
  }
  if (!answer_resolves_) return;
  const bool known = ip == "10.9.0.1" || ip == "fd09::1";
  server_->send_neighbor(device, {ip, known ? std::optional(text_of(peer_mac)) : std::nullopt});
}

void LaneRig::stats(const std::string&, std::vector<std::pair<std::string, std::uint64_t>> counters) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, value] : counters) reported_[name] = value;
}

std::uint64_t LaneRig::reported(const std::string& counter) const {
  const std::lock_guard lock(mutex_);
  const auto it = reported_.find(counter);
  return it == reported_.end() ? 0 : it->second;
}
int LaneRig::resolves() const {
  const std::lock_guard lock(mutex_);
  return resolves_;
}
int LaneRig::sessions() const {
  const std::lock_guard lock(mutex_);
  return sessions_;
}
int LaneRig::resumes() const {
  const std::lock_guard lock(mutex_);
  return resumes_;
}

UniqueFd LaneRig::socket_in(const ScratchNetns& netns, int family, int type) {
  UniqueFd made;
  netns.inside([&] { made.reset(::socket(family, type | SOCK_CLOEXEC, 0)); });
  check(made.valid(), "socket");
  return made;
}

RunningRelay::RunningRelay(LaneRig& rig, xsk::WaitMode mode) : port_(rig.open_port()) {
  worker_ = std::make_unique<relay::LaneWorker>(*port_, mode, std::nullopt);
  check(worker_->start().has_value(), "worker");
  check(port_->set_carrier(true).has_value(), "carrier");
  control_ = std::thread([this] {
    Control control({port_.get()}, [](const LanePort&, ControlEvent, std::string_view) {});
    while (!stop_) control.step(20ms, {});
  });
}

void RunningRelay::end() {
  if (port_->fate() == Fate::kAlive) {
    [[maybe_unused]] const auto ignored = port_->set_carrier(false);
  }
  worker_->stop();
  worker_->join();
  stop_ = true;
  port_->wake_control();
  if (control_.joinable()) control_.join();
}

Child::Child(const ScratchNetns& netns, const std::vector<std::string>& argv,
             const std::vector<std::string>& environment) {
  int pipe_fds[2];
  check(::pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) == 0, "pipe2");
  output_.reset(pipe_fds[0]);
  UniqueFd write_end(pipe_fds[1]);
  std::vector<char*> words, variables;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& entry : environment) variables.push_back(const_cast<char*>(entry.c_str()));
  words.push_back(nullptr);
  variables.push_back(nullptr);
  pid_ = ::fork();
  check(pid_ >= 0, "fork");
  if (pid_ == 0) {
    // Only system calls from here on: other threads of the parent may hold locks.
    const bool ready = ::setns(netns.fd(), CLONE_NEWNET) == 0 && ::dup2(write_end.get(), 1) == 1 &&
                       ::dup2(write_end.get(), 2) == 2 && ::syscall(SYS_setgroups, 0, nullptr) == 0 &&
                       ::syscall(SYS_setresgid, 65534, 65534, 65534) == 0 &&
                       ::syscall(SYS_setresuid, 65534, 65534, 65534) == 0 &&
                       ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
    if (ready) ::execve(words[0], words.data(), variables.data());
    ::_exit(126);
  }
}

Child::~Child() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

void Child::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

bool Child::is_running() {
  if (pid_ <= 0) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  pid_ = -1;
  return false;
}

int Child::wait(std::chrono::milliseconds deadline) {
  eventually(deadline, [&] { return !is_running(); });
  return status_;
}

std::string Child::output() {
  char chunk[4096];
  for (ssize_t n; (n = ::read(output_.get(), chunk, sizeof(chunk))) > 0;) text_.append(chunk, static_cast<std::size_t>(n));
  return text_;
}

Address::Address(const std::string& ip, std::uint16_t port) {
  if (ip.find(':') != std::string::npos) {
    auto* address = reinterpret_cast<sockaddr_in6*>(&storage);
    address->sin6_family = AF_INET6;
    address->sin6_port = htons(port);
    ::inet_pton(AF_INET6, ip.c_str(), &address->sin6_addr);
    length = sizeof(sockaddr_in6);
  } else {
    auto* address = reinterpret_cast<sockaddr_in*>(&storage);
    address->sin_family = AF_INET;
    address->sin_port = htons(port);
    ::inet_pton(AF_INET, ip.c_str(), &address->sin_addr);
    length = sizeof(sockaddr_in);
  }
}

void bind_to(const UniqueFd& socket, const std::string& ip, std::uint16_t port) {
  const Address address(ip, port);
  check(::bind(socket.get(), address.get(), address.length) == 0, "bind " + ip);
}

std::uint16_t port_of(const UniqueFd& socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  check(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &length) == 0, "getsockname");
  return ntohs(reinterpret_cast<sockaddr_in*>(&storage)->sin_port);  // Both families have it there.
}

std::string receive(const UniqueFd& socket, std::chrono::milliseconds timeout) {
  pollfd polled{socket.get(), POLLIN, 0};
  if (::poll(&polled, 1, static_cast<int>(timeout.count())) <= 0) return {};
  std::string text(65536, '\0');
  const ssize_t n = ::recv(socket.get(), text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

void expect_sums(const Counters& counters) {
  std::uint64_t rx_drops = 0, tx_drops = 0;
  std::string text;
  for (const auto& [name, value] : counters.snapshot()) {
    if (name.starts_with("rx_drop_")) rx_drops += value;
    if (name.starts_with("tx_drop_")) tx_drops += value;
    text += name + "=" + std::to_string(value) + " ";
  }
  EXPECT_EQ(counters.get(Counter::kRxFrames), counters.get(Counter::kRxToTun) + counters.get(Counter::kRxTaken) + rx_drops)
      << text;
  EXPECT_EQ(counters.get(Counter::kTxPackets) + counters.get(Counter::kTxDirect),
            counters.get(Counter::kTxFrames) + tx_drops)
      << text;
}

void expect_no_leak(const LanePort& port) {
  const xsk::FramePool& pool = port.socket.pool();
  EXPECT_TRUE(pool.adds_up());
  EXPECT_EQ(pool.count(xsk::Place::kReceived), 0U);
  EXPECT_EQ(pool.count(xsk::Place::kReserved), 0U);
  EXPECT_EQ(pool.count(xsk::Place::kSending), 0U);
  EXPECT_EQ(pool.free_count() + pool.count(xsk::Place::kReceiving), pool.frames());
  EXPECT_EQ(port.socket.foreign_completions(), 0U);
  EXPECT_EQ(port.socket.foreign_receives(), 0U);
}

std::string program(const std::string& name) {
  const char* folder = std::getenv("PODLANE_BIN");
  return (folder != nullptr ? std::string(folder) : "build/release/bin") + "/" + name;
}

}  // namespace podlane::test
