#include "lib/onload/option_table.hpp"

#include <algorithm>
#include <charconv>

#include "lib/json/json.hpp"

namespace podlane::onload {

namespace {

constexpr std::int64_t k16 = 65535, k31 = 2147483647, k32 = 4294967295;
constexpr std::size_t kMaxValueBytes = 255;  // Onload's own strings end there.

constexpr Option number(std::string_view name, std::int64_t low, std::int64_t high) {
  return {.name = name, .kind = ValueKind::kNumber, .low = low, .high = high};
}
constexpr Option flag(std::string_view name) {
  return number(name, 0, 1);
}
// Microseconds; -1 is for ever.
constexpr Option microseconds(std::string_view name) {
  return number(name, -1, k32);
}
constexpr Option word(std::string_view name, std::string_view words) {
  return {.name = name, .kind = ValueKind::kWord, .words = words};
}
// Lists, names, and options whose range is not known to us.
constexpr Option text(std::string_view name) {
  return {.name = name, .kind = ValueKind::kText};
}
constexpr Option retired(std::string_view name) {
  return {.name = name, .kind = ValueKind::kText, .retired = true};
}

constexpr Option kOptions[] = {
    // Of a process: how calls wait.
    microseconds("EF_POLL_USEC"),
    microseconds("EF_SPIN_USEC"),
    microseconds("EF_SLEEP_SPIN_USEC"),
    flag("EF_SELECT_SPIN"),
    flag("EF_POLL_SPIN"),
    flag("EF_EPOLL_SPIN"),
    flag("EF_UDP_RECV_SPIN"),
    flag("EF_UDP_SEND_SPIN"),
    flag("EF_TCP_RECV_SPIN"),
    flag("EF_TCP_SEND_SPIN"),
    flag("EF_TCP_ACCEPT_SPIN"),
    flag("EF_TCP_CONNECT_SPIN"),
    flag("EF_PKT_WAIT_SPIN"),
    flag("EF_PIPE_RECV_SPIN"),
    flag("EF_PIPE_SEND_SPIN"),
    flag("EF_SOCK_LOCK_BUZZ"),
    flag("EF_STACK_LOCK_BUZZ"),
    flag("EF_SO_BUSY_POLL_SPIN"),
    number("EF_UL_EPOLL", 0, 3),
    microseconds("EF_POLL_FAST_USEC"),
    microseconds("EF_POLL_NONBLOCK_FAST_USEC"),
    microseconds("EF_SELECT_FAST_USEC"),
    microseconds("EF_SELECT_NONBLOCK_FAST_USEC"),
    // Of a process: the rest.
    flag("EF_PROBE"),
    flag("EF_TCP"),
    flag("EF_UDP"),
    flag("EF_UL_SELECT"),
    flag("EF_SELECT_FAST"),
    flag("EF_UL_POLL"),
    flag("EF_POLL_FAST"),
    flag("EF_EPOLL_CTL_FAST"),
    flag("EF_EPOLL_CTL_HANDOFF"),
    flag("EF_EPOLL_MT_SAFE"),
    flag("EF_WODA_SINGLE_INTERFACE"),
    flag("EF_FDS_MT_SAFE"),
    flag("EF_FDTABLE_STRICT"),
    flag("EF_LOG_TIMESTAMPS"),
    flag("EF_LOG_VIA_IOCTL"),
    flag("EF_LOAD_ENV"),
    flag("EF_ACCEPT_INHERIT_NONBLOCK"),
    flag("EF_STACK_PER_THREAD"),
    flag("EF_DONT_ACCELERATE"),
    number("EF_PIPE_SIZE", 0, k31),
    number("EF_NETIF_DTOR", 0, 2),
    number("EF_FORK_NETIF", 0, 3),
    flag("EF_NO_FAIL"),
    flag("EF_SA_ONSTACK_INTERCEPT"),
    number("EF_PIPE", 0, 2),
    number("EF_FDTABLE_SIZE", 0, k32),
    number("EF_UNIX_LOG", 0, k32),
    text("EF_SIGNALS_NOPOSTPONE"),
    number("EF_VFORK_MODE", 0, 2),
    number("EF_CLUSTER_SIZE", 0, k32),
    flag("EF_CLUSTER_RESTART"),
    flag("EF_CLUSTER_HOT_RESTART"),
    text("EF_TCP_FORCE_REUSEPORT"),
    text("EF_UDP_FORCE_REUSEPORT"),
    text("EF_SOCKET_CACHE_PORTS"),
    number("EF_ONLOAD_FD_BASE", 0, k32),
    number("EF_SYNC_CPLANE_AT_CREATE", 0, 2),
    // Of a stack: interrupts, timers, locks.
    flag("EF_INT_DRIVEN"),
    flag("EF_INT_REPRIME"),
    flag("EF_POLL_ON_DEMAND"),
    flag("EF_POLL_IN_KERNEL"),
    word("EF_XDP_MODE", "disabled compatible"),
    microseconds("EF_BUZZ_USEC"),
    microseconds("EF_HELPER_USEC"),
    microseconds("EF_HELPER_PRIME_USEC"),
    number("EF_IRQ_CORE", -1, 32767),
    number("EF_IRQ_CHANNEL", -1, 32767),
    text("EF_ONLOAD_IRQ_CORES"),
    number("EF_PERIODIC_TIMER_CPU", -1, k31),
    number("EF_EVS_PER_POLL", 0, k31),
    number("EF_DEFER_WORK_LIMIT", 0, k16),
    // Of a stack: packet buffers and rings.
    number("EF_PACKET_BUFFER_MODE", 0, 3),
    number("EF_USE_HUGE_PAGES", 0, 2),
    number("EF_COMPOUND_PAGES_MODE", 0, 2),
    number("EF_MAX_PACKETS", 1024, k32),
    number("EF_MAX_RX_PACKETS", 0, 1000000000),
    number("EF_MAX_TX_PACKETS", 0, 1000000000),
    number("EF_RXQ_MIN", 0, k16),
    number("EF_MIN_FREE_PACKETS", 0, 1000000000),
    number("EF_PREFAULT_PACKETS", 0, 1000000000),
    flag("EF_PREALLOC_PACKETS"),
    number("EF_RXQ_SIZE", -1, 32768),
    number("EF_TXQ_SIZE", -1, 4096),
    number("EF_RXQ_LIMIT", 0, k16),
    text("EF_SHARED_RXQ_NUM"),
    number("EF_MAX_ENDPOINTS", 4, 2097152),
    number("EF_ENDPOINT_PACKET_RESERVE", 0, 1024),
    number("EF_FREE_PACKETS_LOW_WATERMARK", 0, k16),
    number("EF_POISON_RX_BUF", 0, 2),
    number("EF_RX_DROP_RATE", 0, k32),
    // Of a stack: what the NIC does.
    number("EF_CTPIO", 0, 2),
    word("EF_CTPIO_MODE", "sf sf-np ct"),
    flag("EF_CTPIO_SWITCH_BYPASS"),
    number("EF_CTPIO_MAX_FRAME_LEN", 0, k16),
    number("EF_CTPIO_CT_THRESH", 0, k16),
    number("EF_PIO", 0, 2),
    number("EF_PIO_THRESHOLD", 0, k16),
    flag("EF_TX_PUSH"),
    number("EF_TX_PUSH_THRESHOLD", 1, k16),
    number("EF_TPH_MODE", 0, 2),
    word("EF_TX_DATAPATH", "enterprise express auto"),
    word("EF_RX_DATAPATH", "enterprise express auto both"),
    flag("EF_AF_XDP_ZEROCOPY"),
    flag("EF_NO_HW"),
    text("EF_INTERFACE_WHITELIST"),
    text("EF_INTERFACE_BLACKLIST"),
    number("EF_RX_TIMESTAMPING", 0, 3),
    text("EF_RX_TIMESTAMPING_ORDERING"),
    text("EF_RX_TIMESTAMPING_TRAILER_FORMAT"),
    number("EF_TX_TIMESTAMPING", 0, 3),
    flag("EF_TIMESTAMPING_REPORTING"),
    text("EF_ENABLE_TX_ERROR_RECOVERY"),
    text("EF_SHRUB_CONTROLLER"),
    text("EF_SHRUB_BUFFER_COUNT"),
    text("EF_SHRUB_UNICAST"),
    text("EF_SHRUB_DEBUG"),
    text("EF_SHRUB_USE_INTERRUPTS"),
    text("EF_SHRUB_AUTO_CLOSE_DELAY"),
    text("EF_SHRUB_MAX_CLIENT_BUFFERS"),
    // Of a stack: TCP.
    flag("EF_URG_RFC"),
    word("EF_TCP_URG_MODE", "allow ignore"),
    flag("EF_TCP_LISTEN_HANDOVER"),
    flag("EF_TCP_CONNECT_HANDOVER"),
    number("EF_FORCE_TCP_NODELAY", 0, 2),
    flag("EF_UNCONFINE_SYN"),
    flag("EF_TCP_RX_CHECKS"),
    flag("EF_USE_DSACK"),
    number("EF_TCP_TSOPT_MODE", 0, 2),
    flag("EF_CLUSTER_IGNORE"),
    flag("EF_VALIDATE_ENV"),
    flag("EF_TAIL_DROP_PROBE"),
    flag("EF_TCP_RST_DELAYED_CONN"),
    number("EF_TCP_SNDBUF_MODE", 0, 2),
    text("EF_TCP_COMBINE_SENDS_MODE"),
    number("EF_TCP_SOCKBUF_MAX_FRACTION", 1, 10),
    flag("EF_TCP_SYNCOOKIES"),
    flag("EF_TCP_SEND_NONBLOCK_NO_PACKETS_MODE"),
    flag("EF_TCP_RCVBUF_STRICT"),
    flag("EF_UDP_SEND_NONBLOCK_NO_PACKETS_MODE"),
    flag("EF_TCP_RCVBUF_MODE"),
    flag("EF_HIGH_THROUGHPUT_MODE"),
    flag("EF_TCP_TIME_WAIT_ASSASSINATION"),
    number("EF_TCP_SERVER_LOOPBACK", 0, 2),
    number("EF_TCP_CLIENT_LOOPBACK", 0, 4),
    number("EF_TCP_SYN_OPTS", 0, 15),
    number("EF_TCP_ADV_WIN_SCALE_MAX", 0, 14),
    number("EF_TCP_TCONST_MSL", 0, 255),
    number("EF_TCP_FIN_TIMEOUT", 0, 255),
    number("EF_TCP_RX_LOG_FLAGS", 0, 255),
    number("EF_STRIPE_DUPACK_THRESHOLD", 0, 255),
    number("EF_STRIPE_TCP_OPT", 0, 255),
    text("EF_STRIPE_NETMASK"),
    number("EF_RETRANSMIT_THRESHOLD", 0, 127),
    number("EF_RETRANSMIT_THRESHOLD_ORPHAN", 0, 127),
    number("EF_RETRANSMIT_THRESHOLD_SYN", 0, 127),
    number("EF_RETRANSMIT_THRESHOLD_SYNACK", 0, 127),
    number("EF_DELACK_THRESH", 0, k16),
    number("EF_DYNAMIC_ACK_THRESH", 0, k16),
    number("EF_INVALID_ACK_RATELIMIT", 0, k16),
    number("EF_SOCKET_CACHE_MAX", 0, k31),
    number("EF_PER_SOCKET_CACHE_MAX", -1, k31),
    number("EF_ACCEPTQ_MIN_BACKLOG", 0, k16),
    number("EF_ACCEPTQ_MAX_BACKLOG", 0, k16),
    number("EF_NONAGLE_INFLIGHT_MAX", -1, k16),
    number("EF_TCP_SNDBUF_ESTABLISHED_DEFAULT", 0, k32),
    number("EF_TCP_RCVBUF_ESTABLISHED_DEFAULT", 0, k32),
    number("EF_TCP_SNDBUF", 0, k32),
    number("EF_TCP_RCVBUF", 0, k32),
    number("EF_TCP_BACKLOG_MAX", 0, k32),
    number("EF_TCP_SYNRECV_MAX", 0, 2097152),
    number("EF_TCP_INITIAL_CWND", 0, k31),
    number("EF_TCP_LOSS_MIN_CWND", 0, k31),
    number("EF_TCP_MIN_CWND", 0, k31),
    number("EF_TCP_FASTSTART_INIT", 0, k32),
    number("EF_TCP_FASTSTART_IDLE", 0, k32),
    number("EF_TCP_FASTSTART_LOSS", 0, k32),
    flag("EF_TCP_EARLY_RETRANSMIT"),
    number("EF_RFC_RTO_INITIAL", 0, k32),
    number("EF_RFC_RTO_MIN", 0, k32),
    number("EF_RFC_RTO_MAX", 0, k32),
    number("EF_KEEPALIVE_TIME", 0, k32),
    number("EF_KEEPALIVE_INTVL", 0, k32),
    number("EF_KEEPALIVE_PROBES", 0, k32),
    text("EF_TCP_RST_COOLDOWN"),
    number("EF_TCP_MAX_SEQERR_MSGS", -1, k32),
    number("EF_BURST_CONTROL_LIMIT", 0, k32),
    number("EF_CONG_NOTIFY_THRESH", 0, k32),
    number("EF_CONG_AVOID_SCALE_BACK", 0, k32),
    number("EF_TCP_SHARED_LOCAL_PORTS", 0, k32),
    flag("EF_TCP_SHARED_LOCAL_PORTS_REUSE_FAST"),
    number("EF_TCP_SHARED_LOCAL_PORTS_MAX", 0, k32),
    flag("EF_TCP_SHARED_LOCAL_PORTS_NO_FALLBACK"),
    flag("EF_TCP_SHARED_LOCAL_PORTS_PER_IP"),
    number("EF_TCP_SHARED_LOCAL_PORTS_PER_IP_MAX", 0, k32),
    number("EF_TCP_SHARED_LOCAL_PORTS_STEP", 1, k32),
    word("EF_TCP_ISN_MODE", "clocked clocked+cache"),
    flag("EF_TCP_ISN_INCLUDE_PASSIVE"),
    number("EF_TCP_ISN_2MSL", 0, 480),
    number("EF_TCP_ISN_OFFSET", 0, k32),
    number("EF_TCP_ISN_CACHE_SIZE", 0, k32),
    // Of a stack: UDP, multicast and others.
    flag("EF_MCAST_RECV"),
    flag("EF_FORCE_SEND_MULTICAST"),
    flag("EF_MULTICAST_LOOP_OFF"),
    number("EF_MCAST_SEND", 0, 3),
    flag("EF_MCAST_RECV_HW_LOOP"),
    number("EF_MCAST_JOIN_HANDOVER", 0, 2),
    flag("EF_MCAST_JOIN_BINDTODEVICE"),
    flag("EF_BINDTODEVICE_HANDOVER"),
    number("EF_UDP_CONNECT_HANDOVER", 0, 2),
    flag("EF_UDP_SEND_UNLOCKED"),
    number("EF_UDP_SEND_UNLOCK_THRESH", 0, k16),
    number("EF_UDP_SNDBUF", 0, k32),
    number("EF_UDP_RCVBUF", 0, k32),
    number("EF_UDP_PORT_HANDOVER_MIN", 0, k16),
    number("EF_UDP_PORT_HANDOVER_MAX", 0, k16),
    number("EF_UDP_PORT_HANDOVER2_MIN", 0, k16),
    number("EF_UDP_PORT_HANDOVER2_MAX", 0, k16),
    number("EF_UDP_PORT_HANDOVER3_MIN", 0, k16),
    number("EF_UDP_PORT_HANDOVER3_MAX", 0, k16),
    number("EF_SEND_POLL_THRESH", 0, k16),
    number("EF_SEND_POLL_MAX_EVS", 1, k16),
    number("EF_DEFER_ARP_MAX", 0, 4096),
    number("EF_DEFER_ARP_TIMEOUT", 1, 600),
    number("EF_SHARE_WITH", -1, k31),
    text("EF_LOG"),
    text("EF_SCALABLE_FILTERS"),
    number("EF_SCALABLE_FILTERS_IFINDEX_ACTIVE", -1, k31),
    number("EF_SCALABLE_FILTERS_IFINDEX_PASSIVE", -1, k31),
    number("EF_SCALABLE_FILTERS_MODE", -1, 13),
    number("EF_SCALABLE_FILTERS_ENABLE", 0, 2),
    flag("EF_SCALABLE_LISTEN_MODE"),
    flag("EF_SCALABLE_ACTIVE_WILDS_NEED_FILTER"),
    number("EF_KERNEL_PACKETS_BATCH_SIZE", 0, 64),
    number("EF_KERNEL_PACKETS_TIMER_USEC", 0, k32),
    number("EF_AUTO_FLOWLABELS", 0, 3),
    text("EF_ICMP_PKTS"),
    text("EF_DUMP_STACK_ON_EXIT"),
    // Read elsewhere.
    text("EF_NAME"),
    text("EF_CLUSTER_NAME"),
    flag("EF_CONFIG_DUMP"),
    text("EF_LOG_FILE"),
    text("EF_LOG_THREAD"),
    text("EF_LD_PRELOAD"),
    text("EF_POISON"),
    text("EF_STRIPE_DUPACK_THRESH"),
    // Of older releases only.
    retired("EF_POLL_FAST_LOOPS"),
    retired("EF_POLL_NONBLOCK_FAST_LOOPS"),
    retired("EF_CEPH_DATA_BUF_BYTES"),
    retired("EF_CHALLENGE_ACK_LIMIT"),
    retired("EF_NVME_CRC_TABLE_CAP"),
    retired("EF_TCP_OFFLOAD"),
    retired("EF_MULTIARCH_RX_DATAPATH"),
    retired("EF_MULTIARCH_TX_DATAPATH"),
};

Result<void> check_text(std::string_view value) {
  const bool printable = std::all_of(value.begin(), value.end(), [](unsigned char c) { return c >= ' ' && c != 127; });
  if (printable && value.size() <= kMaxValueBytes) return {};
  return fail(Errc::kInvalid, "must be at most " + std::to_string(kMaxValueBytes) + " printable characters");
}

Result<void> check_word(const Option& option, std::string_view value) {
  std::string list;
  for (std::string_view rest = option.words; !rest.empty();) {
    const std::string_view choice = rest.substr(0, rest.find(' '));
    if (choice == value) return {};
    list.append(list.empty() ? "" : ", ").append(choice);
    rest.remove_prefix(std::min(rest.size(), choice.size() + 1));
  }
  return fail(Errc::kInvalid, "must be one of " + list);
}

}  // namespace

std::span<const Option> options() {
  return kOptions;
}

const Option* find_option(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kOptions), std::end(kOptions), [&](const Option& option) { return option.name == name; });
  return found == std::end(kOptions) ? nullptr : found;
}

std::string_view nearest_option(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Option& option : kOptions) {
    if (!option.retired) names.push_back(option.name);
  }
  return json::nearest(name, names);
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  // A sign here would be a second one: from_chars takes it.
  if (text.empty() || text.front() == '-') return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, hexadecimal ? 16 : 10);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return negative ? -number : number;
}

Result<void> check_value(const Option& option, std::string_view value) {
  if (option.kind == ValueKind::kText) return check_text(value);
  if (option.kind == ValueKind::kWord) return check_word(option, value);
  const auto number = parse_number(value);
  if (number && *number >= option.low && *number <= option.high) return {};
  return fail(Errc::kInvalid,
              "must be a whole number from " + std::to_string(option.low) + " to " + std::to_string(option.high));
}

}  // namespace podlane::onload
