// The bench's peer over the direct path: UDP packets made and read in the lane's frames; everything else passes to the TUN.
#include <array>
#include <cstring>

#include "ctl/bench_endpoint.hpp"
#include "lib/podlane/checksum.hpp"
#include "lib/podlane/packet.hpp"
#include "lib/podlane/podlane.h"

namespace podlane::ctl {

namespace {

constexpr unsigned kBurst = 32;
constexpr std::size_t kUdpHeader = 8;
constexpr unsigned kPumpEvery = 1024;  // Spinning passes between two looks at the TUN, each of which is a system call.
constexpr unsigned kWaitUs = 100000;

void write_be16(std::uint8_t* at, std::size_t value) {
  at[0] = static_cast<std::uint8_t>(value >> 8);
  at[1] = static_cast<std::uint8_t>(value);
}

std::size_t ip_header_bytes(net::Family family) { return family == net::Family::kIpv4 ? 20 : 40; }

struct Closer {
  void operator()(podlane_lane* lane) const { podlane_close(lane); }
};

class LaneEndpoint final : public BenchEndpoint {
 public:
  LaneEndpoint(podlane_lane* lane, const UdpAddress& local, const UdpAddress* peer)
      : lane_(lane), info_(podlane_describe(lane)), local_(local) {
    if (peer != nullptr) peer_ = *peer;
  }

  Result<void> resolve() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    for (;;) {
      const int result = podlane_resolve(lane_.get(), peer_.ip.bytes.data(), static_cast<unsigned>(peer_.ip.size()),
                                         peer_mac_.data());
      if (result == 0) return {};
      if (result != PODLANE_EAGAIN || std::chrono::steady_clock::now() >= deadline) {
        return fail(Errc::kUnavailable, "next hop of " + peer_.ip.to_string() + ": " + podlane_strerror(result));
      }
      podlane_wait(lane_.get(), 1000);
    }
  }

  Result<void> send(std::span<const std::uint8_t> payload) override {
    podlane_frame frame;
    if (podlane_tx_reserve(lane_.get(), &frame, 1) != 1) return {};  // Full: lost, as on a wire.
    const std::size_t header = ip_header_bytes(peer_.ip.family);
    const std::size_t udp_bytes = kUdpHeader + payload.size();
    frame.length = static_cast<std::uint32_t>(kEthernetHeaderBytes + header + udp_bytes);
    std::uint8_t* ip = frame.data + kEthernetHeaderBytes;
    std::memcpy(frame.data, peer_mac_.data(), 6);
    std::memcpy(frame.data + 6, info_->mac, 6);
    write_be16(frame.data + 12, peer_.ip.family == net::Family::kIpv4 ? 0x0800 : 0x86dd);
    write_ip(ip, udp_bytes);
    std::uint8_t* udp = ip + header;
    write_be16(udp, local_.port);
    write_be16(udp + 2, peer_.port);
    write_be16(udp + 4, udp_bytes);
    std::memcpy(udp + kUdpHeader, payload.data(), payload.size());
    IpView view;
    view.is_v4 = peer_.ip.family == net::Family::kIpv4;
    const std::uint16_t pseudo =
        checksum_fold(pseudo_header_sum(ip, view, kProtocolUdp, static_cast<std::uint32_t>(udp_bytes)));
    std::memcpy(udp + 6, &pseudo, 2);
    complete_checksum({ip, header + udp_bytes}, static_cast<std::uint16_t>(header), 6);
    const int sent = podlane_tx_burst(lane_.get(), &frame, 1);
    if (sent == 1) return {};
    podlane_free(lane_.get(), &frame, 1);
    if (sent < 0) return fail(Errc::kGone, std::string("send: ") + podlane_strerror(sent));
    return {};
  }

  Result<std::size_t> receive(std::span<std::uint8_t> payload, Time deadline) override {
    for (unsigned pass = 0;; ++pass) {
      if (next_ == count_) {
        const int received = podlane_rx_burst(lane_.get(), frames_.data(), kBurst);
        count_ = static_cast<unsigned>(received);
        next_ = 0;
      }
      while (next_ < count_) {
        if (const std::size_t size = take(frames_[next_++], payload)) return size;
      }
      const bool sleeps = info_->mode == PODLANE_MODE_INTERRUPT;
      int result = 0;
      if (sleeps || pass % kPumpEvery == kPumpEvery - 1) result = podlane_pump_tun(lane_.get(), kBurst);
      if (result == 0 && sleeps) result = podlane_wait(lane_.get(), kWaitUs);
      if (result < 0) return fail(Errc::kGone, std::string("lane: ") + podlane_strerror(result));
      if ((sleeps || pass % 64 == 63) && std::chrono::steady_clock::now() >= deadline) return std::size_t{0};
    }
  }

  std::uint64_t system_calls() const override {
    std::array<std::uint64_t, 64> values{};
    const int count = podlane_stats(lane_.get(), values.data(), values.size());
    std::uint64_t calls = 0;
    for (int i = 0; i < count && i < static_cast<int>(values.size()); ++i) {
      const std::string_view name = podlane_counter_name(static_cast<unsigned>(i));
      if (name == "tun_reads" || name == "tun_writes" || name == "xsk_kicks" || name == "sleeps") {
        calls += values[static_cast<std::size_t>(i)];
      }
    }
    return calls;
  }
  std::string description() const override {
    return std::string("libpodlane on ") + info_->kind + " lane " + info_->device + ", " +
           (info_->mode == PODLANE_MODE_SPINNING ? "spinning" : "interrupt") + ", " +
           (info_->zero_copy != 0 ? "zero copy" : "copy") + ", " + (info_->native_xdp != 0 ? "native" : "generic") + " XDP";
  }

 private:
  void write_ip(std::uint8_t* ip, std::size_t udp_bytes) const {
    if (peer_.ip.family == net::Family::kIpv4) {
      std::memset(ip, 0, 20);
      ip[0] = 0x45;
      write_be16(ip + 2, 20 + udp_bytes);
      ip[6] = 0x40;  // Don't fragment.
      ip[8] = 64;
      ip[9] = kProtocolUdp;
      std::memcpy(ip + 12, local_.ip.bytes.data(), 4);
      std::memcpy(ip + 16, peer_.ip.bytes.data(), 4);
      const std::uint16_t checksum = static_cast<std::uint16_t>(~checksum_fold(checksum_add(0, ip, 20)));
      std::memcpy(ip + 10, &checksum, 2);
      return;
    }
    std::memset(ip, 0, 8);
    ip[0] = 0x60;
    write_be16(ip + 4, udp_bytes);
    ip[6] = kProtocolUdp;
    ip[7] = 64;
    std::memcpy(ip + 8, local_.ip.bytes.data(), 16);
    std::memcpy(ip + 24, peer_.ip.bytes.data(), 16);
  }

  // Size of the payload when the frame is a datagram for us; the frame is given back either way.
  std::size_t take(const podlane_frame& frame, std::span<std::uint8_t> payload) {
    const std::uint8_t* ip = frame.data + kEthernetHeaderBytes;
    IpView view;
    if (frame.length <= kEthernetHeaderBytes ||
        parse_ip_packet({ip, frame.length - kEthernetHeaderBytes}, view) != IpFault::kNone || view.is_fragment ||
        view.protocol != kProtocolUdp || view.total_bytes < view.header_bytes + kUdpHeader ||
        view.is_v4 != (local_.ip.family == net::Family::kIpv4) || read_port(ip + view.header_bytes + 2) != local_.port) {
      podlane_pass_to_tun(lane_.get(), &frame, 1);
      return 0;
    }
    std::memcpy(peer_mac_.data(), frame.data + 6, 6);
    peer_.ip.family = local_.ip.family;
    std::memcpy(peer_.ip.bytes.data(), ip + (view.is_v4 ? 12 : 8), peer_.ip.size());
    peer_.port = read_port(ip + view.header_bytes);
    const std::size_t size = std::min(payload.size(), view.total_bytes - view.header_bytes - kUdpHeader);
    std::memcpy(payload.data(), ip + view.header_bytes + kUdpHeader, size);
    podlane_free(lane_.get(), &frame, 1);
    return size;
  }
  static std::uint16_t read_port(const std::uint8_t* at) { return static_cast<std::uint16_t>(at[0] << 8 | at[1]); }

  std::unique_ptr<podlane_lane, Closer> lane_;
  const podlane_info* info_;
  UdpAddress local_, peer_;
  MacAddress peer_mac_{};
  std::array<podlane_frame, kBurst> frames_{};
  unsigned next_ = 0, count_ = 0;
};

Result<net::IpAddress> lane_address(const podlane_info& info, net::Family family) {
  for (const char* const* text = info.addresses; *text != nullptr; ++text) {
    PODLANE_TRY_ASSIGN(const net::IpPrefix prefix, net::parse_ip_prefix(*text));
    if (prefix.family() == family) return prefix.address;
  }
  return fail(Errc::kInvalid, std::string("lane ") + info.device + " has no address of the peer's family");
}

}  // namespace

Result<std::unique_ptr<BenchEndpoint>> open_lane_endpoint(const std::string& lane_directory,
                                                          const EndpointOptions& options) {
  podlane_options lane_options = PODLANE_OPTIONS_INIT;
  lane_options.client_name = "podlanectl bench";
  lane_options.mode = options.wait == BenchWait::kSpinning ? PODLANE_MODE_SPINNING : PODLANE_MODE_INTERRUPT;
  podlane_lane* lane = nullptr;
  std::array<char, 512> why{};
  if (const int result = podlane_open(lane_directory.c_str(), &lane_options, &lane, why.data(), why.size()); result != 0) {
    return fail(Errc::kUnavailable, "lane " + lane_directory + ": " + why.data());
  }
  std::unique_ptr<podlane_lane, Closer> guard(lane);
  UdpAddress local = options.local;
  const net::Family family = options.peer != nullptr ? options.peer->ip.family : local.ip.family;
  PODLANE_TRY_ASSIGN(local.ip, lane_address(*podlane_describe(lane), family));
  if (local.port == 0) local.port = 49152;  // Ours alone: the kernel's sockets see only what we pass to the TUN.
  auto endpoint = std::make_unique<LaneEndpoint>(guard.release(), local, options.peer);
  if (options.peer != nullptr) PODLANE_TRY(endpoint->resolve());
  return endpoint;
}

}  // namespace podlane::ctl
