// How it works. Callers put commands into a queue and read `shared_`; one thread owns the netlink socket and everything
// else. For each watch it looks at what stands in the kernel's table. A static entry of the operator's is followed and
// never touched. Otherwise the entry is made managed, so that the kernel resolves it and keeps it resolved. Where the
// host has no address that the neighbour would answer, the thread asks with the lane's address while the entry is not
// reachable, with growing pauses. IPv4 answers to that find their way into the table by themselves (net/ipv4/arp.c,
// arp_process takes replies from whoever has an entry). IPv6 answers do not, as their destination is not the host's: a
// packet socket reads them and the thread teaches them to the table.
#include "deviceplugin/lanes/neighbors.hpp"

#include <linux/neighbour.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "deviceplugin/lanes/neighbor_socket.hpp"
#include "deviceplugin/lanes/wire.hpp"
#include "lib/net/rtnetlink.hpp"

namespace podlane::dp {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPause{200};
constexpr milliseconds kLongestPause{10000};
constexpr milliseconds kQuietPause{30000};    // Resolved: look whether everything still stands.
constexpr milliseconds kRefreshPause{5000};   // The same where the kernel does not manage entries: its delay_first_probe.

struct Watch {  // The thread's own.
  std::optional<net::IpAddress> asker;
  std::uint16_t state = NUD_NONE;
  bool present = false;  // In the kernel's table.
  milliseconds pause = kFirstPause;
  steady_clock::time_point due;

  bool foreign() const { return (state & (NUD_PERMANENT | NUD_NOARP)) != 0; }
  bool settled() const { return foreign() || (state & NUD_REACHABLE) != 0; }
};

struct Shared {  // Under the mutex.
  int count = 0;
  std::optional<MacAddress> mac;
};

struct Command {
  NeighborKey key;
  bool add = false;
  std::optional<net::IpAddress> asker;
};

std::optional<NeighborKey> key_of(IfIndex nic, const std::string& ip) {
  const auto address = net::parse_ip(ip);
  if (!address) return std::nullopt;
  return NeighborKey{.nic = nic, .ip = *address};
}

class NeighborThread final : public Neighbors {
 public:
  NeighborThread(Callback on_change, NeighborSocket socket, net::RtNetlink netlink, UniqueFd wake)
      : on_change_(std::move(on_change)),
        socket_(std::move(socket)),
        netlink_(std::move(netlink)),
        wake_(std::move(wake)),
        thread_([this] { run(); }) {}

  ~NeighborThread() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake();
    thread_.join();
  }

  void watch(IfIndex nic, const std::string& ip, const std::string& lane_address) override {
    const auto key = key_of(nic, ip);
    if (!key) return;
    const auto asker = net::parse_ip(lane_address.substr(0, lane_address.find('/')));
    const std::lock_guard lock(mutex_);
    if (++shared_[*key].count > 1) return;
    Command command{.key = *key, .add = true, .asker = {}};
    if (asker && asker->family == key->ip.family) command.asker = *asker;
    commands_.push_back(command);
    wake();
  }

  void unwatch(IfIndex nic, const std::string& ip) override {
    const auto key = key_of(nic, ip);
    if (!key) return;
    const std::lock_guard lock(mutex_);
    const auto found = shared_.find(*key);
    if (found == shared_.end() || --found->second.count > 0) return;
    shared_.erase(found);
    commands_.push_back({.key = *key, .add = false, .asker = {}});
    wake();
  }

  lane::Neighbor current(IfIndex nic, const std::string& ip) override {
    lane::Neighbor neighbor{.ip = ip, .mac = {}};
    const auto key = key_of(nic, ip);
    if (!key) return neighbor;
    const std::lock_guard lock(mutex_);
    const auto found = shared_.find(*key);
    if (found != shared_.end() && found->second.mac) neighbor.mac = to_string(*found->second.mac);
    return neighbor;
  }

 private:
  void wake() {
    const std::uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof(one));  // Fails only when the counter is full: awake then.
  }

  void run();
  bool take_commands();
  void wait();
  void read_table();
  void take_entry(const NeighborEntry& entry);
  void take_failure(std::uint32_t sequence, int error);
  void look_after(const NeighborKey& key, Watch& watch);
  void ask_by_lane_address(const NeighborKey& key, const Watch& watch);
  bool kernel_can_ask(const NeighborKey& key);
  void close_idle_wires();

  const Callback on_change_;
  NeighborSocket socket_;
  net::RtNetlink netlink_;
  UniqueFd wake_;
  Keep keep_ = Keep::kManaged;
  std::map<NeighborKey, Watch> watches_;
  std::map<std::uint32_t, NeighborKey> asked_, kept_;  // Sequence numbers whose failure means something.
  std::map<IfIndex, Wire> wires_;                       // NICs on which IPv6 answers must be read by us.

  std::mutex mutex_;
  std::map<NeighborKey, Shared> shared_;
  std::vector<Command> commands_;
  bool stopping_ = false;
  std::thread thread_;  // Last: everything above stands when it starts.
};

void NeighborThread::run() {
  while (take_commands()) {
    read_table();
    const auto now = steady_clock::now();
    for (auto& [key, watch] : watches_) {
      if (watch.due <= now) look_after(key, watch);
    }
    read_table();  // The kernel has answered while it was asked.
    wait();
  }
}

bool NeighborThread::take_commands() {
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return false;
    commands.swap(commands_);
  }
  for (const Command& command : commands) {
    if (command.add) {
      watches_[command.key] = Watch{.asker = command.asker, .due = steady_clock::now()};
      // Before anything is changed, know whether the operator has set it by hand.
      if (const auto sequence = socket_.ask(command.key)) asked_[*sequence] = command.key;
    } else if (const auto found = watches_.find(command.key); found != watches_.end()) {
      if (found->second.present && !found->second.foreign()) (void)socket_.remove(command.key);
      watches_.erase(found);
    }
  }
  close_idle_wires();
  return true;
}

void NeighborThread::wait() {
  auto next = steady_clock::now() + kQuietPause;
  for (const auto& [key, watch] : watches_) next = std::min(next, watch.due);
  const auto pause = std::chrono::ceil<milliseconds>(next - steady_clock::now());
  std::vector<pollfd> descriptors = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                                     {.fd = socket_.fd(), .events = POLLIN, .revents = 0}};
  for (const auto& [nic, wire] : wires_) descriptors.push_back({.fd = wire.fd(), .events = POLLIN, .revents = 0});
  ::poll(descriptors.data(), descriptors.size(), static_cast<int>(std::max<std::int64_t>(0, pause.count())));
  std::uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof(count));
  for (auto& [nic, wire] : wires_) {
    wire.drain([this, &nic](const NeighborClaim& claim) {
      const NeighborKey key{.nic = nic, .ip = claim.address};
      const auto found = watches_.find(key);
      if (claim.only_asks || found == watches_.end() || found->second.foreign()) return;
      (void)socket_.teach(key, claim.mac, keep_);
    });
  }
}

void NeighborThread::read_table() {
  const auto read = socket_.read_all([this](const NeighborEntry& entry) { take_entry(entry); },
                                     [this](std::uint32_t sequence, int error) { take_failure(sequence, error); });
  asked_.clear();
  kept_.clear();
  if (read) return;
  for (const auto& [key, watch] : watches_) {
    if (const auto sequence = socket_.ask(key)) asked_[*sequence] = key;
  }
}

void NeighborThread::take_entry(const NeighborEntry& entry) {
  const auto found = watches_.find(entry.key);
  if (found == watches_.end()) return;
  Watch& watch = found->second;
  const bool was_settled = watch.settled();
  watch.present = !entry.removed;
  watch.state = entry.state;
  if (watch.settled()) {
    watch.pause = kFirstPause;
    watch.due = steady_clock::now() + (keep_ == Keep::kManaged ? kQuietPause : kRefreshPause);
  } else if (was_settled) {
    watch.due = steady_clock::now();
  }
  {
    const std::lock_guard lock(mutex_);
    const auto shared = shared_.find(entry.key);
    if (shared == shared_.end() || shared->second.mac == entry.mac) return;
    shared->second.mac = entry.mac;
  }
  lane::Neighbor neighbor{.ip = entry.key.ip.to_string(), .mac = {}};
  if (entry.mac) neighbor.mac = to_string(*entry.mac);
  on_change_(entry.key.nic, neighbor);
}

void NeighborThread::take_failure(std::uint32_t sequence, int error) {
  if (const auto asked = asked_.find(sequence); asked != asked_.end() && error == ENOENT) {
    take_entry({.key = asked->second, .state = NUD_NONE, .mac = {}, .ours = false, .removed = true});
    return;
  }
  const auto kept = kept_.find(sequence);
  if (kept == kept_.end() || keep_ != Keep::kManaged || (error != EINVAL && error != EOPNOTSUPP)) return;
  keep_ = Keep::kOnce;  // A kernel before 5.16 does not know the attribute.
  if (const auto found = watches_.find(kept->second); found != watches_.end()) found->second.due = steady_clock::now();
}

void NeighborThread::look_after(const NeighborKey& key, Watch& watch) {
  if (watch.foreign()) {
    watch.due = steady_clock::now() + kQuietPause;
    return;
  }
  if (const auto sequence = socket_.keep(key, keep_)) kept_[*sequence] = key;
  if (watch.settled()) {
    watch.due = steady_clock::now() + (keep_ == Keep::kManaged ? kQuietPause : kRefreshPause);
    return;
  }
  if (watch.asker && !kernel_can_ask(key)) ask_by_lane_address(key, watch);
  watch.due = steady_clock::now() + watch.pause;
  watch.pause = std::min(watch.pause * 2, kLongestPause);
}

// IPv4: some hosts answer only who is in their subnet. IPv6: for a managed entry the kernel asks under the NIC's
// link-local address and under no other (net/ipv6/ndisc.c, ndisc_send_ns); nearly every NIC has one.
bool NeighborThread::kernel_can_ask(const NeighborKey& key) {
  const auto addresses = netlink_.addresses(key.nic);
  return addresses && std::ranges::any_of(*addresses, [&](const net::Address& held) {
           if (held.prefix.family() != key.ip.family) return false;
           if (key.ip.family == net::Family::kIpv4) return held.prefix.contains(key.ip);
           return held.prefix.address.bytes[0] == 0xfe && (held.prefix.address.bytes[1] & 0xc0) == 0x80;
         });
}

// Nothing here is worth an error: what fails is tried again after the pause.
void NeighborThread::ask_by_lane_address(const NeighborKey& key, const Watch& watch) {
  const auto link = netlink_.link_by_index(key.nic);
  const auto mac = link ? parse_mac(link->mac) : std::nullopt;
  if (!mac) return;
  if (key.ip.family == net::Family::kIpv4) {
    if (auto wire = Wire::open(key.nic, net::Family::kIpv4)) {
      (void)wire->send(arp_request(*mac, watch.asker, key.ip));
    }
    return;
  }
  auto wire = wires_.find(key.nic);
  if (wire == wires_.end()) {
    auto opened = Wire::open(key.nic, net::Family::kIpv6);
    if (!opened) return;
    wire = wires_.emplace(key.nic, std::move(*opened)).first;
  }
  (void)wire->second.send(neighbor_solicitation(*mac, watch.asker, key.ip));
}

void NeighborThread::close_idle_wires() {
  std::erase_if(wires_, [this](const auto& entry) {
    return std::ranges::none_of(watches_, [&](const auto& watched) {
      return watched.first.nic == entry.first && watched.first.ip.family == net::Family::kIpv6;
    });
  });
}

// What an earlier life left behind: its watches are taken anew by whoever still needs them.
Result<void> remove_leftovers(NeighborSocket& socket) {
  std::vector<NeighborKey> left;
  PODLANE_TRY(socket.list());
  PODLANE_TRY(socket.read_all(
      [&left](const NeighborEntry& entry) {
        if (entry.ours) left.push_back(entry.key);
      },
      [](std::uint32_t, int) {}));
  for (const NeighborKey& key : left) PODLANE_TRY(socket.remove(key));
  return socket.read_all([](const NeighborEntry&) {}, [](std::uint32_t, int) {});
}

}  // namespace

Result<std::unique_ptr<Neighbors>> Neighbors::start(Callback on_change) {
  PODLANE_TRY_ASSIGN(NeighborSocket socket, NeighborSocket::open());
  PODLANE_TRY(remove_leftovers(socket));
  PODLANE_TRY_ASSIGN(net::RtNetlink netlink, net::RtNetlink::open());
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return fail_errno("eventfd");
  return std::make_unique<NeighborThread>(std::move(on_change), std::move(socket), std::move(netlink),
                                          std::move(wake));
}

}  // namespace podlane::dp
