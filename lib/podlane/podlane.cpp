// The C ABI over LanePort. See podlane.h for what each function promises.
#include "lib/podlane/podlane.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

#include "lib/podlane/control.hpp"
#include "lib/podlane/forward.hpp"
#include "lib/podlane/lane_port.hpp"
#include "lib/xsk/idle_policy.hpp"

using namespace podlane;

struct podlane_lane {
  std::unique_ptr<LanePort> port;
  xsk::IdlePolicy idle{xsk::WaitMode::kInterrupt};
  struct podlane_info info {};
  std::vector<const char*> addresses, subnets, gateways;
  std::vector<pollfd> waits;
  UniqueFd stop;
  std::thread control;
};

namespace {

constexpr unsigned kRxBurstMax = 64;
constexpr unsigned kRetryUs = 500;

int code_of(const Error& error) {
  switch (error.code()) {
    case Errc::kInvalid: return PODLANE_EINVAL;
    case Errc::kDenied: return PODLANE_EDENIED;
    case Errc::kBusy:
    case Errc::kExists: return PODLANE_EBUSY;
    case Errc::kUnavailable: return PODLANE_ETIMEDOUT;
    case Errc::kUnsupported: return PODLANE_EUNSUPPORTED;
    case Errc::kGone:
    case Errc::kNotFound: return PODLANE_EGONE;
    case Errc::kProtocol: return PODLANE_EPROTOCOL;
    case Errc::kIo: return PODLANE_EIO;
  }
  return PODLANE_EIO;
}

int open_failed(const Error& error, char* text, std::size_t size) {
  if (text != nullptr && size != 0) std::snprintf(text, size, "%s", error.message().c_str());
  return code_of(error);
}

Result<xsk::WaitMode> wait_mode(int wanted, lane::Mode given) {
  switch (wanted) {
    case PODLANE_MODE_SPINNING: return xsk::WaitMode::kSpinning;
    case PODLANE_MODE_INTERRUPT: return xsk::WaitMode::kInterrupt;
    case PODLANE_MODE_AS_GIVEN: break;
    default: return fail(Errc::kInvalid, "mode " + std::to_string(wanted) + " is not one of enum podlane_mode");
  }
  if (given == lane::Mode::kSpinning) return xsk::WaitMode::kSpinning;
  if (given == lane::Mode::kInterrupt) return xsk::WaitMode::kInterrupt;
  return fail(Errc::kUnsupported, "mode adaptive is not built yet: choose spinning or interrupt");
}

std::vector<const char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<const char*> pointers;
  for (const std::string& string : strings) pointers.push_back(string.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

void fill_info(podlane_lane& lane) {
  const lane::LaneDescription& d = lane.port->description;
  lane.addresses = pointers_to(d.addresses);
  lane.subnets = pointers_to(d.subnets);
  lane.gateways = pointers_to(d.gateways);
  struct podlane_info& info = lane.info;
  info.pool = d.pool.c_str();
  info.index = d.index;
  info.device = d.device.c_str();
  info.kind = lane::to_string(d.kind).data();  // Literals.
  info.ifname = d.ifname.c_str();
  info.mtu = d.mtu;
  std::memcpy(info.mac, lane.port->mac.data(), sizeof(info.mac));
  info.addresses = lane.addresses.data();
  info.subnets = lane.subnets.data();
  info.gateways = lane.gateways.data();
  info.netdev = d.xsk->netdev.c_str();
  info.queue = d.xsk->queue;
  info.frames = d.xsk->umem.frames;
  info.frame_size = d.xsk->umem.frame_size_bytes;
  info.mode = lane.idle.mode() == xsk::WaitMode::kSpinning ? PODLANE_MODE_SPINNING : PODLANE_MODE_INTERRUPT;
  info.zero_copy = lane.port->socket.zero_copy() ? 1 : 0;
  info.native_xdp = d.in_force.native_xdp ? 1 : 0;
  info.busy_poll = d.in_force.busy_poll ? 1 : 0;
}

void start_control(podlane_lane& lane, int cpu) {
  lane.control = std::thread([port = lane.port.get(), stop = lane.stop.get(), cpu] {
    // Signals are for the application's own threads.
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    ::pthread_setname_np(::pthread_self(), "podlane-ctl");
    if (cpu >= 0) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<unsigned>(cpu), &set);
      ::sched_setaffinity(0, sizeof(set), &set);  // A CPU that is not allowed: the scheduler's choice stays.
    }
    // The application sees what matters as PODLANE_EGONE; a library does not log.
    Control control({port}, [](const LanePort&, ControlEvent, std::string_view) {});
    pollfd stopped{stop, POLLIN, 0};
    while (stopped.revents == 0) control.step(std::chrono::milliseconds(1000), {&stopped, 1});
  });
}

std::uint64_t address_of(const podlane_lane& lane, const struct podlane_frame& frame) {
  return static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(frame.data) - lane.port->umem.base());
}

struct podlane_frame frame_at(const podlane_lane& lane, std::uint64_t address, std::uint32_t length) {
  const std::uint64_t end = lane.port->socket.pool().start_of(address) + lane.port->umem.frame_size_bytes();
  return {reinterpret_cast<std::uint8_t*>(lane.port->umem.at(address)), length,
          static_cast<std::uint32_t>(end - address)};
}

bool may_send(const podlane_lane& lane, const struct podlane_frame& frame) {
  const std::uint64_t address = address_of(lane, frame);
  const xsk::XskSocket& socket = lane.port->socket;
  if (!socket.pool().is_in_hand(address)) return false;  // Also: an address outside of the packet memory.
  const std::uint64_t end = socket.pool().start_of(address) + socket.frame_size_bytes();
  return frame.length >= kEthernetHeaderBytes && frame.length <= kEthernetHeaderBytes + lane.port->description.mtu &&
         address + frame.length <= end;
}

bool is_gone(const podlane_lane& lane) { return lane.port->fate() != Fate::kAlive; }

}  // namespace

int podlane_open(const char* directory, const struct podlane_options* options, podlane_lane** out, char* error,
                 size_t error_size) {
  struct podlane_options chosen = PODLANE_OPTIONS_INIT;
  if (options != nullptr) std::memcpy(&chosen, options, std::min(options->size, sizeof(chosen)));
  if (directory == nullptr || out == nullptr || chosen.deadline_ms < 0) {
    return open_failed(Error(Errc::kInvalid, "podlane_open: directory, lane and deadline_ms >= 0 are needed"), error,
                       error_size);
  }
  lane::HandoverOptions handover;
  handover.socket_path = std::string(directory) + "/handover.sock";
  handover.client = chosen.client_name != nullptr ? chosen.client_name : "libpodlane " PODLANE_VERSION;
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::milliseconds(chosen.deadline_ms == 0 ? 10000 : chosen.deadline_ms);
  auto port = LanePort::open(handover, deadline);
  if (!port) return open_failed(port.error(), error, error_size);
  const auto mode = wait_mode(chosen.mode, (*port)->description.mode);
  if (!mode) return open_failed(mode.error(), error, error_size);

  auto lane = std::make_unique<podlane_lane>();
  lane->port = std::move(*port);
  lane->idle = xsk::IdlePolicy(*mode);
  lane->stop.reset(::eventfd(0, EFD_CLOEXEC));
  if (!lane->stop.valid()) return open_failed(Error::from_errno(errno, "eventfd"), error, error_size);
  lane->waits.push_back({lane->port->socket.fd(), POLLIN, 0});
  for (const UniqueFd& tun : lane->port->tuns) lane->waits.push_back({tun.get(), POLLIN, 0});
  fill_info(*lane);
  if (auto raised = lane->port->set_carrier(true); !raised) return open_failed(raised.error(), error, error_size);
  start_control(*lane, chosen.control_cpu);
  *out = lane.release();
  return 0;
}

void podlane_close(podlane_lane* lane) {
  if (lane == nullptr) return;
  [[maybe_unused]] const auto carrier = lane->port->set_carrier(false);  // A TUN that is gone has none.
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(lane->stop.get(), &one, sizeof(one));
  lane->control.join();
  delete lane;
}

const struct podlane_info* podlane_describe(const podlane_lane* lane) { return &lane->info; }

int podlane_rx_burst(podlane_lane* lane, struct podlane_frame* frames, unsigned max) {
  std::array<xsk::FrameSpan, kRxBurstMax> received;
  LanePort& port = *lane->port;
  const std::uint32_t count = port.socket.receive(std::span(received).first(std::min(max, kRxBurstMax)));
  port.socket.refill();
  if (count == 0) return 0;
  port.counters.add(Counter::kRxFrames, count);
  for (std::uint32_t i = 0; i < count; ++i) frames[i] = frame_at(*lane, received[i].address, received[i].length);
  return static_cast<int>(count);
}

int podlane_free(podlane_lane* lane, const struct podlane_frame* frames, unsigned count) {
  int result = 0;
  for (unsigned i = 0; i < count; ++i) {
    const std::uint64_t address = address_of(*lane, frames[i]);
    const bool received = lane->port->socket.pool().place_of(address) == xsk::Place::kReceived;
    if (!lane->port->socket.give_back(address)) result = PODLANE_EINVAL;
    else if (received) lane->port->counters.add(Counter::kRxTaken);
  }
  return result;
}

int podlane_tx_reserve(podlane_lane* lane, struct podlane_frame* frames, unsigned max) {
  LanePort& port = *lane->port;
  if (port.socket.pool().count(xsk::Place::kSending) != 0) port.socket.reclaim();
  const std::uint32_t count = std::min(port.socket.send_room(), max);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint64_t address = 0;
    if (!port.socket.take(address)) return static_cast<int>(i);
    frames[i] = frame_at(*lane, address + kTxFrameOffset, 0);
  }
  return static_cast<int>(count);
}

int podlane_tx_burst(podlane_lane* lane, const struct podlane_frame* frames, unsigned count) {
  LanePort& port = *lane->port;
  if (is_gone(*lane)) return PODLANE_EGONE;
  if (port.socket.pool().count(xsk::Place::kSending) != 0) port.socket.reclaim();
  std::uint32_t sent = 0;
  for (; sent < count; ++sent) {
    if (!may_send(*lane, frames[sent])) break;
    const xsk::FrameSpan span{address_of(*lane, frames[sent]), frames[sent].length};
    const bool received = port.socket.pool().place_of(span.address) == xsk::Place::kReceived;
    if (port.socket.send({&span, 1}) == 0) break;
    if (received) port.counters.add(Counter::kRxTaken);
    port.counters.add(Counter::kTxBytes, frames[sent].length - kEthernetHeaderBytes);
  }
  if (sent == 0) return count != 0 && !may_send(*lane, frames[0]) ? PODLANE_EINVAL : 0;
  port.counters.add(Counter::kTxDirect, sent);
  port.counters.add(Counter::kTxFrames, sent);
  flush_tx(port);
  return static_cast<int>(sent);
}

int podlane_tx_copy(podlane_lane* lane, const void* frame, uint32_t length) {
  if (is_gone(*lane)) return PODLANE_EGONE;
  if (length < kEthernetHeaderBytes || length > kEthernetHeaderBytes + lane->info.mtu) return PODLANE_EINVAL;
  struct podlane_frame own;
  if (podlane_tx_reserve(lane, &own, 1) != 1) return PODLANE_EAGAIN;
  std::memcpy(own.data, frame, length);
  own.length = length;
  const int sent = podlane_tx_burst(lane, &own, 1);
  if (sent == 1) return 0;
  own.length = 0;
  podlane_free(lane, &own, 1);
  return sent < 0 ? sent : PODLANE_EAGAIN;
}

int podlane_pass_to_tun(podlane_lane* lane, const struct podlane_frame* frames, unsigned count) {
  int taken = 0;
  for (unsigned i = 0; i < count; ++i) {
    const std::uint64_t address = address_of(*lane, frames[i]);
    if (lane->port->socket.pool().place_of(address) != xsk::Place::kReceived) continue;
    taken += frame_to_tun(*lane->port, frames[i].data, frames[i].length) ? 1 : 0;
    lane->port->socket.give_back(address);
  }
  return taken;
}

int podlane_pump_tun(podlane_lane* lane, unsigned budget) {
  LanePort& port = *lane->port;
  if (is_gone(*lane)) return PODLANE_EGONE;
  port.take_news();
  if (!port.socket.zero_copy() && port.socket.not_taken() != 0) flush_tx(port);
  return static_cast<int>(tun_to_tx(port, budget));
}

int podlane_wait(podlane_lane* lane, unsigned timeout_us) {
  if (is_gone(*lane)) return PODLANE_EGONE;
  lane->port->take_news();
  if (lane->idle.mode() == xsk::WaitMode::kSpinning) {
    lane->idle.wait({}, std::chrono::microseconds(0));
    return 1;
  }
  // What the kernel did not take yet is tried again soon. While no frame is free, the TUN is no reason to wake.
  const bool retry = lane->port->starved || lane->port->socket.not_taken() != 0;
  const auto limit = std::chrono::microseconds(retry ? std::min(timeout_us, kRetryUs) : timeout_us);
  const bool ready = lane->idle.wait(std::span(lane->waits).first(lane->port->starved ? 1 : lane->waits.size()), limit) ||
                     lane->port->starved;
  lane->port->counters.set(Counter::kSleeps, lane->idle.sleeps());
  if (is_gone(*lane)) return PODLANE_EGONE;
  return ready ? 1 : 0;
}

int podlane_fds(const podlane_lane* lane, int* fds, unsigned max) {
  for (unsigned i = 0; i < lane->waits.size() && i < max; ++i) fds[i] = lane->waits[i].fd;
  return static_cast<int>(lane->waits.size());
}

int podlane_resolve(podlane_lane* lane, const void* address, unsigned address_size, uint8_t mac[6]) {
  if (address_size != 4 && address_size != 16) return PODLANE_EINVAL;
  lane->port->take_news();
  const auto* bytes = static_cast<const std::uint8_t*>(address);
  MacAddress found{};
  switch (lane->port->find_hop(address_size == 4 ? ip_key_v4(bytes) : ip_key_v6(bytes), address_size == 4, found)) {
    case HopState::kKnown: std::memcpy(mac, found.data(), found.size()); return 0;
    case HopState::kNoRoute: return PODLANE_ENOROUTE;
    default: return PODLANE_EAGAIN;
  }
}

int podlane_stats(const podlane_lane* lane, uint64_t* values, unsigned max) {
  for (unsigned i = 0; i < kCounterCount && i < max; ++i) values[i] = lane->port->counters.get(static_cast<Counter>(i));
  return static_cast<int>(kCounterCount);
}

const char* podlane_counter_name(unsigned index) {
  return index < kCounterCount ? kCounterNames[index].data() : nullptr;  // Literals, so ended by a zero.
}

int podlane_check_frames(const podlane_lane* lane) {
  return lane->port->socket.pool().adds_up() ? 0 : PODLANE_EINVAL;
}

const char* podlane_strerror(int error) {
  switch (error) {
    case 0: return "success";
    case PODLANE_EINVAL: return "an argument is wrong";
    case PODLANE_EAGAIN: return "not now, try again";
    case PODLANE_EGONE: return "the lane's device is gone";
    case PODLANE_EDENIED: return "refused by the device plugin";
    case PODLANE_EBUSY: return "the lane has a live owner";
    case PODLANE_ETIMEDOUT: return "the device plugin did not answer in time";
    case PODLANE_EUNSUPPORTED: return "not supported here";
    case PODLANE_EPROTOCOL: return "the hand-over protocol was broken";
    case PODLANE_EIO: return "a system call failed";
    case PODLANE_ENOROUTE: return "no subnet and no gateway for this address";
    default: return "unknown error";
  }
}

const char* podlane_version(void) { return PODLANE_VERSION; }
