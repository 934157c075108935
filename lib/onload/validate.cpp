#include "lib/onload/validate.hpp"

#include <algorithm>
#include <array>

#include "lib/onload/option_table.hpp"

namespace podlane::onload {

namespace {

// What EF_POLL_USEC turns on by itself; the other *_SPIN it leaves alone.
constexpr std::array<std::string_view, 8> kImpliedSpins{"EF_SELECT_SPIN",   "EF_POLL_SPIN",     "EF_EPOLL_SPIN",
                                                        "EF_UDP_RECV_SPIN", "EF_UDP_SEND_SPIN", "EF_TCP_RECV_SPIN",
                                                        "EF_TCP_SEND_SPIN", "EF_PKT_WAIT_SPIN"};
constexpr std::array<std::string_view, 4> kOtherSpins{"EF_TCP_ACCEPT_SPIN", "EF_TCP_CONNECT_SPIN", "EF_PIPE_RECV_SPIN",
                                                      "EF_PIPE_SEND_SPIN"};
constexpr std::array<std::string_view, 6> kTimesAndBuzz{
    "EF_POLL_USEC", "EF_SPIN_USEC", "EF_BUZZ_USEC", "EF_SLEEP_SPIN_USEC", "EF_SOCK_LOCK_BUZZ", "EF_STACK_LOCK_BUZZ"};

// What Onload would make of an environment: values as it reads them, defaults as they follow from others.
class Effective {
 public:
  explicit Effective(const Environment& environment) : environment_(environment) {}

  bool has(std::string_view name) const { return find(environment_, name) != nullptr; }
  std::int64_t number(std::string_view name, std::int64_t otherwise) const {
    const std::string* const value = find(environment_, name);
    return value == nullptr ? otherwise : parse_number(*value).value_or(0);
  }
  std::int64_t poll_us() const { return number("EF_POLL_USEC", 0); }
  std::int64_t spin_us() const { return number("EF_SPIN_USEC", poll_us()); }
  bool is_int_driven() const { return number("EF_INT_DRIVEN", poll_us() == 0 && spin_us() == 0 ? 1 : 0) != 0; }
  std::int64_t timer_us() const { return number("EF_HELPER_USEC", is_int_driven() ? 0 : 500); }
  bool spins_somewhere() const {
    const auto is_on = [&](std::string_view name, bool implied) {
      return number(name, implied && poll_us() != 0 ? 1 : 0) != 0;
    };
    return std::any_of(kImpliedSpins.begin(), kImpliedSpins.end(), [&](auto name) { return is_on(name, true); }) ||
           std::any_of(kOtherSpins.begin(), kOtherSpins.end(), [&](auto name) { return is_on(name, false); });
  }

 private:
  const Environment& environment_;
};

class Findings {
 public:
  explicit Findings(const Environment& environment) : environment_(environment) {}

  void add(std::string rule, Severity severity, std::string_view name, std::string words) {
    const std::string* const value = find(environment_, name);
    std::string message(name);
    if (value != nullptr) message += "=" + value->substr(0, 64);
    list_.push_back({std::move(rule), severity, std::string(name), message + " " + std::move(words)});
  }
  std::vector<Finding> take() && { return std::move(list_); }

 private:
  const Environment& environment_;
  std::vector<Finding> list_;
};

void check_spinning(const Effective& now, const Circumstances& circumstances, Findings& out) {
  if (now.poll_us() == 0 && now.spin_us() != 0 && !now.spins_somewhere()) {
    out.add("V03", Severity::kError, "EF_SPIN_USEC",
            "sets a time and no EF_*_SPIN=1 says where to spin: the stack would neither spin nor wait for interrupts; "
            "set EF_POLL_USEC as well, or the spins");
  }
  if (!now.is_int_driven() && now.number("EF_UL_EPOLL", 1) == 0) {
    out.add("V04", Severity::kError, "EF_UL_EPOLL",
            "does not go with EF_INT_DRIVEN=0, which spinning implies; use EF_UL_EPOLL=1 to 3, or EF_INT_DRIVEN=1");
  }
  if (now.number("EF_SLEEP_SPIN_USEC", 0) != 0 && now.number("EF_UL_EPOLL", 1) != 3) {
    out.add("V07", Severity::kWarning, "EF_SLEEP_SPIN_USEC", "has an effect with EF_UL_EPOLL=3 only");
  }
  if (now.has("EF_POLL_USEC") && now.has("EF_SPIN_USEC") && now.poll_us() != now.spin_us()) {
    out.add("V09", Severity::kWarning, "EF_SPIN_USEC",
            "differs from EF_POLL_USEC=" + std::to_string(now.poll_us()) + " and wins" +
                (now.spin_us() == 0 ? ": nothing spins" : "") + "; set both alike");
  }
  if (!circumstances.mode || *circumstances.mode == lane::Mode::kSpinning) return;
  for (const char* name : {"EF_POLL_USEC", "EF_SPIN_USEC"}) {
    if (now.number(name, 0) >= 0) continue;
    out.add("V08", Severity::kError, name, "spins for ever, which is for mode spinning alone; give microseconds");
  }
  if (*circumstances.mode != lane::Mode::kInterrupt) return;
  const auto refuse = [&](std::string_view name) {
    if (now.number(name, 0) == 0) return;
    out.add("V05", Severity::kError, name,
            "spins, and the mode is interrupt; leave it 0, or use mode adaptive or spinning");
  };
  for (const std::string_view name : kTimesAndBuzz) refuse(name);
  for (const std::string_view name : kImpliedSpins) refuse(name);
  for (const std::string_view name : kOtherSpins) refuse(name);
}

void check_memory(const Effective& now, const Circumstances& circumstances, Findings& out) {
  const bool required = now.number("EF_USE_HUGE_PAGES", 1) == 2;
  if (required && circumstances.transport == Transport::kAfXdp) {
    out.add("V06", Severity::kError, "EF_USE_HUGE_PAGES",
            "requires huge pages, which Onload cannot use over AF_XDP; use 0 or 1");
  }
  if (required && now.number("EF_SHARE_WITH", 0) != 0) {
    out.add("V06", Severity::kError, "EF_USE_HUGE_PAGES",
            "requires huge pages, and a stack of EF_SHARE_WITH cannot have them; use 0 or 1, or no EF_SHARE_WITH");
  }
  if (now.number("EF_PACKET_BUFFER_MODE", 0) >= 2) {
    out.add("P03", Severity::kWarning, "EF_PACKET_BUFFER_MODE",
            "lets the NIC write anywhere in memory for this process; only for pods that are trusted with the node");
  }
}

void check_waking(const Effective& now, const Circumstances& circumstances, Findings& out) {
  if (now.number("EF_LOAD_ENV", 1) == 0) {
    out.add("P02", Severity::kError, "EF_LOAD_ENV", "makes Onload ignore every other variable; leave it 1");
  }
  const bool for_ever = now.spin_us() < 0 && now.spins_somewhere();
  if (circumstances.transport != Transport::kAfXdp || for_ever) return;
  if (now.is_int_driven()) {
    out.add("P01", Severity::kWarning, "EF_INT_DRIVEN",
            std::string(now.has("EF_INT_DRIVEN") ? "" : "(1 where nothing spins) ") +
                "over AF_XDP: no interrupt wakes a sleeping thread there, half a round trip took 46 ms where spinning "
                "took 0.35 ms; use EF_INT_DRIVEN=0 with EF_HELPER_USEC=500, or mode spinning");
  } else if (now.timer_us() == 0) {
    out.add("P01", Severity::kWarning, "EF_HELPER_USEC",
            "takes away the timer, and over AF_XDP nothing else wakes a sleeping thread; use 500");
  }
}

}  // namespace

std::string_view to_string(Severity severity) {
  return severity == Severity::kError ? "error" : "warning";
}

std::optional<Finding> check_variable(std::string_view name, std::string_view value) {
  const std::string shown = std::string(name.substr(0, 64)) + "=" + std::string(value.substr(0, 64));
  const Option* const option = find_option(name);
  if (option == nullptr) {
    std::string words = shown + " is no option of Onload; ";
    const std::string_view near = nearest_option(name);
    if (name == "EF_IRQ_MODERATION") words += "interrupt moderation is the NIC's: ethtool -C";
    else if (!near.empty()) words += "did you mean " + std::string(near) + "?";
    else words += "docs/onload.md says where the known ones are";
    return Finding{"V01", Severity::kError, std::string(name), std::move(words)};
  }
  if (auto checked = check_value(*option, value); !checked) {
    return Finding{"V02", Severity::kError, std::string(name), shown + " " + checked.error().message()};
  }
  if (option->retired) {
    return Finding{"V01", Severity::kWarning, std::string(name),
                   shown + " is known to older releases of Onload only; leave it out"};
  }
  return std::nullopt;
}

std::vector<Finding> validate(const Environment& environment, const Circumstances& circumstances) {
  std::vector<Finding> findings;
  Environment readable;  // A value that Onload cannot read would give a second finding that misleads.
  for (const auto& [name, value] : environment) {
    if (!name.starts_with("EF_")) continue;
    auto finding = check_variable(name, value);
    if (!finding || finding->severity == Severity::kWarning) readable.emplace_back(name, value);
    if (finding) findings.push_back(std::move(*finding));
  }
  Findings together(readable);
  const Effective now(readable);
  check_spinning(now, circumstances, together);
  check_memory(now, circumstances, together);
  check_waking(now, circumstances, together);
  for (Finding& finding : std::move(together).take()) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace podlane::onload
