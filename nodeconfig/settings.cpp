#include "nodeconfig/settings.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace podlane::nodeconfig {

namespace {

constexpr unsigned kPercentOfFree = 90;  // Of a NUMA node's free memory, what huge pages may take.

// Puts the values in place of the '%' of a knob's key or path.
std::string filled(std::string_view pattern, std::initializer_list<std::string_view> values) {
  std::string text;
  const auto* value = values.begin();
  for (const char c : pattern) {
    if (c == '%' && value != values.end()) text += *value++;
    else text += c;
  }
  return text;
}

bool matches(const NicMatch& match, const Nic& nic) {
  const auto fits = [](const std::string& pattern, const std::string& text) {
    return pattern.empty() || ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
  };
  return fits(match.name, nic.name) && fits(match.pci, nic.pci) && fits(match.driver, nic.driver) &&
         (!match.numa_node || *match.numa_node == nic.numa_node);
}

class Expander {
 public:
  Expander(const Facts& facts, const Profile& profile) : facts_(facts), profile_(profile) {}

  Result<Expansion> run() {
    PODLANE_TRY(find_cpus());
    PODLANE_TRY(expand_huge_pages());
    for (const Wish& wish : profile_.node) PODLANE_TRY(add(wish, {}, {}, nullptr));
    PODLANE_TRY(expand_power());
    PODLANE_TRY(expand_nics());
    PODLANE_TRY(expand_irqs());
    std::stable_sort(out_.settings.begin(), out_.settings.end(),
                     [](const Setting& a, const Setting& b) { return a.knob < b.knob; });
    return std::move(out_);
  }

 private:
  std::unexpected<Error> not_here(const std::string& place, const CpuSet& wanted) const {
    const CpuSet missing = wanted - facts_.online;
    const bool present = missing.within(facts_.present);
    return fail(Errc::kInvalid, place + " \"" + wanted.list() + "\": CPUs " + missing.list() +
                                    (present ? " are offline" : " do not exist on this node") + "; online are " +
                                    facts_.online.list());
  }

  Result<void> find_cpus() {
    out_.lanes = profile_.lanes.value_or(facts_.kubelet.exclusive_cpus());
    if (!out_.lanes.within(facts_.online)) {
      if (profile_.lanes) return not_here("cpus.lanes", out_.lanes);
      out_.notes.push_back(
          "The kubelet's state names CPUs that are not online: " + (out_.lanes - facts_.online).list() + ".");
      out_.lanes = out_.lanes & facts_.online;
    }
    const CpuSet with_siblings = profile_.siblings_idle ? facts_.siblings_of(out_.lanes) : out_.lanes;
    if (profile_.housekeeping) {
      out_.housekeeping = *profile_.housekeeping;
      if (!out_.housekeeping.within(facts_.online)) return not_here("cpus.housekeeping", out_.housekeeping);
      if (out_.housekeeping.meets(out_.lanes)) {
        return fail(Errc::kInvalid, "cpus.housekeeping \"" + out_.housekeeping.list() + "\" and the lanes' CPUs \"" +
                                        out_.lanes.list() + "\" share " + (out_.housekeeping & out_.lanes).list() +
                                        "; a CPU must be in one of them only");
      }
      if (const CpuSet threads = out_.housekeeping & with_siblings; !threads.empty()) {
        out_.notes.push_back("Housekeeping CPUs " + threads.list() +
                             " are threads of the lanes' cores: what runs there slows lanes.");
      }
      return {};
    }
    const CpuSet reserved = facts_.kubelet.reserved() & facts_.online;
    out_.housekeeping = (reserved.empty() ? facts_.online : reserved) - with_siblings;
    return {};
  }

  Result<CpuSet> cpus_of(const Wish& wish, const Nic* nic) const {
    if (wish.value == "off") return CpuSet();
    if (wish.value != "housekeeping" && wish.value != "local") {
      PODLANE_TRY_ASSIGN(CpuSet cpus, CpuSet::parse_list(wish.value));
      if (!cpus.within(facts_.online)) return not_here(wish.place, cpus);
      return cpus;
    }
    if (out_.housekeeping.empty()) {
      return fail(Errc::kInvalid, wish.place + " \"" + wish.value + "\": no CPU is left for housekeeping; lanes have " +
                                      out_.lanes.list() + " of " + facts_.online.list() +
                                      ". Name cpus.housekeeping, or give lanes fewer");
    }
    if (wish.value == "local" && nic != nullptr) {
      for (const NumaNode& node : facts_.numa_nodes) {
        if (static_cast<int>(node.id) != nic->numa_node) continue;
        const CpuSet local = node.cpus & out_.housekeeping;
        if (!local.empty()) return local;
      }
    }
    return out_.housekeeping;
  }

  // numbers fill the knob's key and path; they differ where an identity is no place.
  Result<void> add(const Wish& wish, std::initializer_list<std::string_view> in_key,
                   std::initializer_list<std::string_view> in_path, const Nic* nic) {
    const Knob& knob = *wish.knob;
    Setting setting{
        .knob = &knob, .key = filled(knob.key, in_key), .path = filled(knob.path, in_path), .place = wish.place};
    if (knob.takes == Takes::kCpus) {
      PODLANE_TRY_ASSIGN(const CpuSet cpus, cpus_of(wish, nic));
      setting.wanted = knob.format == Format::kMask ? cpus.mask() : cpus.list();
    } else if (knob.name == "power.maxIdleLatencyUs" && wish.value == "0") {
      setting.wanted = "n/a";  // "0" is no constraint at all (Documentation/ABI/testing/sysfs-devices-power).
    } else {
      setting.wanted = wish.value;
    }
    if (knob.disruptive && nic != nullptr) setting.not_now = disturbed(*nic);
    out_.settings.push_back(std::move(setting));
    return {};
  }

  // Whom it would disturb when the NIC loses packets for a moment; empty: nobody.
  std::string disturbed(const Nic& nic) const {
    if (const auto lanes = facts_.lanes_on.find(nic.name); lanes != facts_.lanes_on.end()) {
      return nic.name + " has lanes in use: " + lanes->second;
    }
    if (nic.default_route && rule_of(nic)->match.pci.empty()) {
      return nic.name + " has the node's default route; name it by match.pciAddress if you mean it";
    }
    return {};
  }

  Result<void> expand_power() {
    if (!profile_.power.empty() && out_.lanes.empty()) {
      out_.notes.push_back(
          "power speaks of the lanes' CPUs, and there are none: cpus.lanes is auto, and the kubelet (CPU manager " +
          (facts_.kubelet.cpu_policy.empty() ? std::string("state not found") : facts_.kubelet.cpu_policy) +
          ") gives no CPU to a single container.");
    }
    for (const Wish& wish : profile_.power) {
      if (wish.knob->scope == Scope::kCpu) {
        for (const unsigned cpu : out_.lanes.cpus()) {
          const std::string number = std::to_string(cpu);
          PODLANE_TRY(add(wish, {number}, {number}, nullptr));
        }
        continue;
      }
      CpuSet covered;
      for (const FrequencyPolicy& policy : facts_.policies) {
        if (!policy.cpus.meets(out_.lanes)) continue;
        covered = covered | policy.cpus;
        const std::string number = std::to_string(policy.id);
        PODLANE_TRY(add(wish, {number}, {number}, nullptr));
        if (!policy.cpus.within(out_.lanes)) {
          out_.notes.push_back("Clock policy " + number + " is shared: " + wish.place + " takes effect on CPUs " +
                               policy.cpus.list() + ", not on the lanes' alone.");
        }
      }
      if (!out_.lanes.within(covered)) {
        out_.notes.push_back(wish.place + ": CPUs " + (out_.lanes - covered).list() +
                             " have no clock that the kernel controls (usual in a virtual machine).");
      }
    }
    return {};
  }

  Result<void> add_for_queues(const Wish& wish, const Nic& nic) {
    const bool rx = wish.knob->scope == Scope::kRxQueue;
    const std::vector<unsigned>& queues = rx ? nic.rx_queues : nic.tx_queues;
    if (wish.queue && std::find(queues.begin(), queues.end(), *wish.queue) == queues.end()) {
      return fail(Errc::kInvalid, wish.place + ": " + nic.name + " has no " + (rx ? "receive" : "transmit") +
                                      " queue " + std::to_string(*wish.queue) + "; it has " +
                                      std::to_string(queues.size()));
    }
    for (const unsigned queue : queues) {
      if (wish.queue && *wish.queue != queue) continue;
      const std::string number = std::to_string(queue);
      PODLANE_TRY(add(wish, {nic.id, number}, {nic.name, number}, &nic));
    }
    return {};
  }

  Result<void> expand_nics() {
    std::set<const NicRule*> used;
    for (const Nic& nic : facts_.nics) {
      const NicRule* const rule = rule_of(nic);
      if (rule == nullptr) continue;
      used.insert(rule);
      for (const Wish& wish : rule->wishes) {
        if (wish.knob->scope == Scope::kIrq) continue;
        if (wish.knob->scope == Scope::kNic) PODLANE_TRY(add(wish, {nic.id}, {nic.name}, &nic));
        else PODLANE_TRY(add_for_queues(wish, nic));
      }
    }
    for (const NicRule& rule : profile_.nics) {
      if (!used.contains(&rule))
        out_.notes.push_back(rule.place + ".match fits no NIC of this node, or an earlier rule takes it.");
    }
    return {};
  }

  const NicRule* rule_of(const Nic& nic) const {
    const auto it = std::find_if(profile_.nics.begin(), profile_.nics.end(),
                                 [&](const NicRule& rule) { return matches(rule.match, nic); });
    return it == profile_.nics.end() ? nullptr : &*it;
  }

  // The wish of a NIC's rule wins over interrupts.irqs, that of a queue over that of the NIC.
  const Wish* wish_of(const Irq& irq, const Nic* nic, std::set<const Wish*>& used) const {
    const NicRule* const rule = nic == nullptr ? nullptr : rule_of(*nic);
    const Wish* best = profile_.irqs ? &*profile_.irqs : nullptr;
    if (rule == nullptr) return best;
    for (const Wish& wish : rule->wishes) {
      if (wish.knob->scope != Scope::kIrq) continue;
      const bool fits = !wish.queue || (!irq.role.empty() && irq.first <= *wish.queue && *wish.queue <= irq.last);
      if (!fits) continue;
      used.insert(&wish);
      best = &wish;
      if (wish.queue) break;
    }
    return best;
  }

  Result<void> expand_irqs() {
    std::set<const Wish*> used;
    for (const Irq& irq : facts_.irqs) {
      const Nic* nic = nullptr;
      for (const Nic& candidate : facts_.nics) {
        if (!irq.pci.empty() && candidate.pci == irq.pci) nic = &candidate;
      }
      const Wish* const wish = wish_of(irq, nic, used);
      if (wish != nullptr) PODLANE_TRY(add(*wish, {irq.key}, {std::to_string(irq.number)}, nic));
    }
    for (const NicRule& rule : profile_.nics) {
      for (const Wish& wish : rule.wishes) {
        if (wish.knob->scope == Scope::kIrq && wish.queue && !used.contains(&wish)) {
          out_.notes.push_back(wish.place + ": no interrupt of that queue was found.");
        }
      }
    }
    return {};
  }

  void add_huge_pages(const HugePageWish& wish, const NumaNode& node) {
    const Knob& knob = *find_knob("hugepages");
    const std::string id = std::to_string(node.id), size = std::to_string(wish.size_kib);
    Setting setting{.knob = &knob,
                    .key = filled(knob.key, {id, size}),
                    .path = filled(knob.path, {id, size}),
                    .wanted = std::to_string(wish.count),
                    .place = wish.place};
    for (const HugePages& pages : node.huge_pages) {
      if (pages.size_kib != wish.size_kib) continue;
      const auto count = static_cast<std::uint64_t>(wish.count);
      const std::uint64_t room = node.free_kib * kPercentOfFree / 100 / wish.size_kib + pages.total;
      if (count > pages.total && count > room) {
        setting.cannot = wish.place + ".count " + std::to_string(count) + ": NUMA node " + id + " has room for " +
                         std::to_string(room) + " pages of " + size + " kB (" + std::to_string(node.free_kib) +
                         " kB are free, of which " + std::to_string(kPercentOfFree) + " % may be taken)";
      }
    }
    out_.settings.push_back(std::move(setting));
  }

  Result<void> expand_huge_pages() {
    for (const HugePageWish& wish : profile_.huge_pages) {
      bool found = false;
      for (const NumaNode& node : facts_.numa_nodes) {
        if (wish.numa_node && *wish.numa_node != node.id) continue;
        found = true;
        add_huge_pages(wish, node);
      }
      if (!found) {
        return fail(Errc::kInvalid, wish.place + ".numaNode " + std::to_string(wish.numa_node.value_or(0)) +
                                        " does not exist; this node has " + std::to_string(facts_.numa_nodes.size()));
      }
    }
    return {};
  }

  const Facts& facts_;
  const Profile& profile_;
  Expansion out_;
};

}  // namespace

Result<Expansion> expand(const Facts& facts, const Profile& profile) {
  return Expander(facts, profile).run();
}

std::string canonical(Format format, std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (format == Format::kList) {
    const auto set = CpuSet::parse_list(text);
    if (set) return set->list();
  } else if (format == Format::kMask) {
    const auto set = CpuSet::parse_mask(text);
    if (set) return set->mask();
  } else if (format == Format::kChoice) {
    const std::size_t open = text.find('['), close = text.find(']');
    if (open < close && close != text.npos) return std::string(text.substr(open + 1, close - open - 1));
  } else if (format == Format::kNumber) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return std::to_string(number);
  }
  return std::string(text);
}

bool satisfies(const Setting& setting, std::string_view now) {
  if (now == setting.wanted) return true;
  if (setting.knob->scope != Scope::kIrq) return false;
  const auto have = CpuSet::parse_list(now), want = CpuSet::parse_list(setting.wanted);
  return have && want && !have->empty() && have->within(*want);
}

Reading read_setting(const Tree& tree, const Setting& setting) {
  Reading reading;
  const auto file = tree.read(setting.path);
  if (!file) {
    reading.error = file.error().errno_value() != 0 ? file.error().errno_value() : EIO;
    return reading;
  }
  reading.now = canonical(setting.knob->format, *file);
  const std::string folder = setting.path.substr(0, setting.path.rfind('/') + 1);
  if (setting.knob->scope == Scope::kIrq && satisfies(setting, *reading.now)) {
    if (const auto effective = tree.read(folder + "effective_affinity_list")) {
      reading.effective = canonical(Format::kList, *effective);
    }
  } else if (setting.knob->scope == Scope::kIrq) {
    reading.mode = tree.mode(setting.path);
  }
  std::string words;
  if (setting.knob->format == Format::kChoice) words = *file;
  if (!setting.knob->offered.empty()) {
    if (const auto offered = tree.read(folder + std::string(setting.knob->offered))) words = *offered;
  }
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find(' ', at), words.size());
    std::string word = words.substr(at, end - at);
    std::erase_if(word, [](char c) { return c == '[' || c == ']'; });
    if (!word.empty()) reading.offered.push_back(std::move(word));
    at = end + 1;
  }
  if (!setting.knob->limit.empty()) {
    if (const auto limit = tree.read(folder + std::string(setting.knob->limit))) {
      std::int64_t number = 0;
      if (std::from_chars(limit->data(), limit->data() + limit->size(), number).ec == std::errc())
        reading.limit = number;
    }
  }
  if (!setting.knob->needs.empty()) {
    // The number stands in both paths; the key ends are the same.
    const std::size_t start = setting.key.find('/') + 1;
    reading.meaningless = !tree.exists(
        filled(setting.knob->needs, {std::string_view(setting.key).substr(start, setting.key.rfind('/') - start)}));
  }
  return reading;
}

std::string path_now(const Facts& facts, const Knob& knob, const std::string& key, const std::string& path_then) {
  if (knob.scope == Scope::kIrq) {
    const Irq* const irq = facts.irq_by_key(std::string_view(key).substr(0, key.rfind('/')));
    return irq == nullptr ? std::string() : filled(knob.path, {std::to_string(irq->number)});
  }
  if (knob.scope != Scope::kNic && knob.scope != Scope::kRxQueue && knob.scope != Scope::kTxQueue) return path_then;
  const std::string_view after = std::string_view(key).substr(key.find('/') + 1);
  const Nic* const nic = facts.nic_by_id(after.substr(0, after.find('/')));
  const std::string_view prefix = knob.path.substr(0, knob.path.find('%'));  // "/sys/class/net/"
  const std::size_t slash = path_then.find('/', prefix.size());
  if (nic == nullptr || slash == std::string::npos) return {};
  return std::string(prefix) + nic->name + path_then.substr(slash);
}

}  // namespace podlane::nodeconfig
