#include "nodeconfig/irq_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace podlane::nodeconfig {

namespace {

struct Role {
  std::string_view word;  // Lower case.
  std::string_view role;
};
// Longer ones first: "tx-rx" ends with "rx".
constexpr std::array kRoles = {
    Role{"tx-rx", "queue"},                         // ena
    Role{"txrx", "queue"},                          // ixgbe, i40e, ice, igb with paired queues, bnxt_en
    Role{"rxtx", "queue"},                          // vmxnet3
    Role{"input", "rx"},                            // virtio_net
    Role{"output", "tx"},   Role{"comp", "queue"},  // mlx5_core
    Role{"req", "queue"},                           // virtio_blk
    Role{"rx", "rx"},                               // e1000e, igb, sfc
    Role{"tx", "tx"},
};
constexpr unsigned kMaxQueue = 65535;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

// Takes the digits at the end of text. Empty: there are none, or too many.
std::optional<unsigned> take_number(std::string_view& text) {
  std::size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[text.size() - 1 - digits])) != 0)
    ++digits;
  unsigned number = 0;
  const char* const start = text.data() + text.size() - digits;
  if (digits == 0 || std::from_chars(start, start + digits, number).ec != std::errc() || number > kMaxQueue) return {};
  text.remove_suffix(digits);
  return number;
}

std::string_view role_at_end(std::string_view text) {
  if (text.ends_with('-') || text.ends_with('.')) text.remove_suffix(1);
  for (const Role& role : kRoles) {
    if (!text.ends_with(role.word)) continue;
    const std::string_view before = text.substr(0, text.size() - role.word.size());
    // A word of its own: the "tx" of "matrix-0" is none.
    if (before.empty() || std::isalpha(static_cast<unsigned char>(before.back())) == 0) return role.role;
  }
  return {};
}

bool parse_queues(std::string_view text, std::string_view ifname, IrqName& name) {
  std::string_view rest = text;
  const auto last = take_number(rest);
  if (!last) return false;
  name.first = name.last = *last;
  std::string_view role = role_at_end(rest);
  if (role.empty() && rest.ends_with('-')) {  // "…-TxRx-0-1"
    std::string_view shorter = rest.substr(0, rest.size() - 1);
    const auto first = take_number(shorter);
    if (first && *first <= *last) role = role_at_end(shorter);
    if (!role.empty()) name.first = *first;
  }
  if (role.empty() && !ifname.empty() && rest == lower(ifname) + "-") role = "queue";  // sfc: "eth2-0"
  name.role = role;
  return !role.empty();
}

}  // namespace

IrqName parse_irq_name(std::string_view action, std::string_view ifname) {
  IrqName name;
  const std::string_view plain = action.substr(0, action.find("@pci:"));
  if (parse_queues(lower(plain), ifname, name)) {
    name.identity = name.role + "-" + std::to_string(name.first);
    if (name.last != name.first) name.identity += "-" + std::to_string(name.last);
    return name;
  }
  name = {};
  // The interface may be renamed: it is no part of what the interrupt is.
  std::string identity(plain);
  const std::size_t at = ifname.empty() ? std::string::npos : identity.find(ifname);
  if (at != std::string::npos) identity.replace(at, ifname.size(), "if");
  for (char& c : identity) {
    if (c == '/' || std::isgraph(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  name.identity = identity.empty() ? "unnamed" : identity;
  return name;
}

}  // namespace podlane::nodeconfig
