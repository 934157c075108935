#include "tests/kernel/lanes/node.hpp"

#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "lib/base/file.hpp"
#include "lib/lane/control_client.hpp"
#include "lib/net/tun.hpp"
#include "lib/net/veth_pair.hpp"

namespace podlane::test {

namespace fs = std::filesystem;

Child::Child(const std::vector<std::string>& argv) {
  int in[2], out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int error = ::posix_spawn(&pid_, words[0], &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  in_.reset(in[1]);
  out_.reset(out[0]);
  if (error != 0) throw std::runtime_error("cannot run " + argv[0]);
}

void Child::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string Child::line(std::chrono::milliseconds timeout) {
  for (;;) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string text = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return text;
    }
    pollfd fd{out_.get(), POLLIN, 0};
    if (::poll(&fd, 1, static_cast<int>(timeout.count())) <= 0) throw std::runtime_error("the child says nothing");
    char chunk[4096];
    const ssize_t n = ::read(out_.get(), chunk, sizeof(chunk));
    if (n <= 0) throw std::runtime_error("the child has ended");
    buffer_.append(chunk, static_cast<std::size_t>(n));
  }
}

void Child::say(const std::string& text) {
  const std::string line = text + "\n";
  if (::write(in_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) throw std::runtime_error("write");
}

Node::Node(const std::string& pools) {
  directory_ = "/tmp/" + random_name("plt");
  run_dir_ = directory_ + "/run";
  bpffs_ = "/sys/fs/bpf/" + random_name("plt");
  config_ = directory_ + "/config.json";
  pods_ = directory_ + "/pods";
  fs::create_directories(directory_ + "/state");
  set_pools(pools);
  set_pods("");
  make_nic();
}

void Node::set_pools(const std::string& pools) {
  std::string text = pools;
  for (std::size_t at; (at = text.find('@')) != std::string::npos;) text.replace(at, 1, nic_);
  std::ofstream(config_) << "{\"pools\":" << text << "}";
}

void Node::move_to_other_directories() {
  old_bpffs_.push_back(bpffs_);
  bpffs_ = "/sys/fs/bpf/" + random_name("plt");
  run_dir_ = directory_ + "/run2";
}

Node::~Node() {
  daemon_.reset();
  std::error_code ignored;
  old_bpffs_.push_back(bpffs_);
  for (const std::string& bpffs : old_bpffs_) {
    // Maps stay pinned by design.
    if (!fs::exists(bpffs, ignored)) continue;
    for (const auto& entry : fs::directory_iterator(bpffs, ignored)) fs::remove(entry.path(), ignored);
    ::rmdir(bpffs.c_str());
  }
  fs::remove_all(directory_, ignored);
}

void Node::make_nic() {
  const VethPair pair(host_, peer_, nic_, "wire0");
  // Lanes need one queue; a veth takes one per CPU where the kernel is told nothing.
  must_run("ip netns exec " + host_.name() + " ethtool -L " + nic_ + " rx 1 tx 1");
  peer_.ip("addr add 10.9.0.1/24 dev wire0");
}

std::string Node::try_start() {
  daemon_ = std::make_unique<Child>(std::vector<std::string>{TABLE_DAEMON, host_.path(), config_, run_dir_,
                                                             directory_ + "/state", bpffs_, pods_,
                                                             std::to_string(reconcile_ms), std::to_string(reserved_ms)});
  return daemon_->line();
}

void Node::start() {
  if (const std::string said = try_start(); said != "ok ready") throw std::runtime_error(said);
}

bool Node::refuses_queue_pool() {
  if (finished_sockets() || read_file(config_, 1 << 20).value_or("").find(R"("lane":"queue")") == std::string::npos) return false;
  differs("queue pool refused");
  const std::string said = try_start();
  EXPECT_NE(said.find("queue lanes need Linux 6.4"), std::string::npos) << said;
  daemon_.reset();
  return true;
}

std::string Node::ask(const std::string& line) {
  daemon_->say(line);
  return daemon_->line();
}

void Node::set_pods(const std::string& lines) {
  std::ofstream(pods_ + ".new") << lines;
  fs::rename(pods_ + ".new", pods_);
}

void Node::lose_pods() { fs::remove(pods_); }

lane::ControlAnswer Node::call(const lane::ControlRequest& request, int netns) {
  auto answer = lane::control_call(run_dir_ + "/control.sock", request, netns, std::chrono::seconds(30));
  if (!answer) throw std::runtime_error(answer.error().message());
  return *answer;
}

std::string Node::lanes_json() const {
  const auto text = read_file(run_dir_ + "/lanes.json", 16 << 20);
  return text ? *text : std::string();
}

std::vector<std::string> Node::left() {
  std::vector<std::string> found;
  std::istringstream links(host_.ip("-o link"));
  for (std::string line; std::getline(links, line);) {
    if (line.find("podlane:") != std::string::npos || line.find(": pl") != std::string::npos) found.push_back(line);
  }
  const std::string map = must_run("bpftool map dump pinned " + bpffs_ + "/lane_by_addr");
  if (map.find("key") != std::string::npos && map.find("Found 0") == std::string::npos) found.push_back(map);
  for (const char* directory : {"/lanes", "/lanes-journal"}) {
    for (const auto& entry : fs::directory_iterator(run_dir_ + directory)) found.push_back(entry.path());
  }
  return found;
}

Pod::Pod(Node& node, std::string name, std::string container_id)
    : node_(node), name_{"default", std::move(name), ""}, attachment_{"net", std::move(container_id), "eth0"} {}

lane::ControlAnswer Pod::attach(std::vector<std::pair<std::string, std::string>> annotations) {
  auto answer = node_.call(lane::AttachRequest{attachment_, name_, std::move(annotations), netns->path()}, netns->fd());
  if (!answer.lanes.empty()) plan_ = answer.lanes.front();
  return answer;
}

lane::LaneMade Pod::made(const std::vector<std::string>& addresses) const {
  return {.device = plan_.device, .tun_name = "lane0", .tun_ifindex = tun_ifindex_, .addresses = addresses,
          .mtu = mtu_, .queues = queues_};
}

lane::ControlAnswer Pod::commit(const std::vector<std::string>& addresses) { return commit(addresses, 0, 1); }

lane::ControlAnswer Pod::commit(const std::vector<std::string>& addresses, std::uint32_t mtu, std::uint32_t queues) {
  mtu_ = mtu;
  queues_ = queues;
  netns->inside([&] {
    auto tun = net::tun_create({.name = "lane0", .multi_queue = queues > 1});
    if (!tun) throw std::runtime_error(tun.error().message());
    tun_ifindex_ = static_cast<int>(::if_nametoindex("lane0"));
  });
  for (const std::string& address : addresses) netns->ip("addr add " + address + " dev lane0 nodad");
  if (mtu != 0) netns->ip("link set lane0 mtu " + std::to_string(mtu));
  netns->ip("link set lane0 up");
  if (plan_.veth.host.value != 0) {
    node_.host().inside([&] {
      auto opened = net::open_veth_pair({plan_.veth.host, plan_.veth.pod}, netns->fd(), plan_.mtu);
      if (!opened) throw std::runtime_error(opened.error().message());
    });
  }
  return node_.call(lane::CommitRequest{attachment_, {made(addresses)}});
}

lane::ControlAnswer Pod::detach() { return node_.call(lane::DetachRequest{attachment_}); }

lane::ControlAnswer Pod::check(const std::vector<std::string>& addresses) {
  return node_.call(lane::CheckRequest{attachment_, {made(addresses)}});
}

std::string Pod::open_lane(const std::string& directory) {
  owner_ = std::make_unique<Child>(std::vector<std::string>{LANE_PUMP, netns->path(), directory});
  return owner_->line();
}

bool Pod::pinged_by(const ScratchNetns& from, const std::string& address) {
  return eventually(std::chrono::seconds(5), [&] {
    return run({"ip", "netns", "exec", from.name(), "ping", "-n", "-q", "-c", "1", "-W", "1", address}).status == 0;
  });
}

std::string word(const std::string& line, std::size_t at) {
  std::istringstream words(line);
  std::string found;
  for (std::size_t i = 0; i <= at; ++i) {
    if (!(words >> found)) return {};
  }
  return found;
}

}  // namespace podlane::test
