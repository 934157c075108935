#include "nodeconfig/profile.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "lib/json/json.hpp"

namespace podlane::nodeconfig {

namespace {

constexpr std::size_t kMaxRules = 256;
constexpr std::size_t kMaxPattern = 64;

std::unexpected<Error> wrong(const json::Reader& reader, std::string_view key, std::string_view words) {
  const json::Value* value = reader.find(key);
  const std::string shown = value == nullptr ? "" : " " + json::dump(*value).substr(0, 100);
  return fail(Errc::kInvalid, reader.path_of(key) + shown + " " + std::string(words));
}

// The knobs of one section and what else may stand there.
Result<void> refuse_unknown(const json::Reader& reader, std::string_view section, std::vector<std::string_view> known) {
  for (const Knob& knob : kKnobs) {
    if (knob.name.starts_with(section)) known.push_back(knob.name.substr(section.size()));
  }
  for (const auto& [key, value] : reader.value().items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string_view near = json::nearest(key, known);
    std::string list;
    for (const std::string_view name : known) list.append(list.empty() ? "" : ", ").append(name);
    return fail(Errc::kInvalid,
                "unknown key '" + reader.path_of(key) + "'; " +
                    (near.empty() ? "known keys here: " + list : "did you mean '" + std::string(near) + "'?"));
  }
  return {};
}

std::string words_of(const Knob& knob) {
  switch (knob.takes) {
    case Takes::kWords: {
      std::string text = "must be one of leave";
      for (const Word& word : knob.words) text.append(", ").append(word.said);
      return text;
    }
    case Takes::kNumber:
      return "must be \"leave\" or a whole number from " + std::to_string(knob.low) + " to " +
             std::to_string(knob.high);
    case Takes::kOffered:
      return "must be \"leave\" or a word of " + std::string(knob.offered) + ", such as \"performance\"";
    case Takes::kCpus: break;
  }
  const bool queue = knob.scope == Scope::kRxQueue || knob.scope == Scope::kTxQueue;
  return std::string("must be \"leave\", \"housekeeping\", ") +
         (queue || knob.scope == Scope::kIrq ? "\"local\", " : "") + (queue ? "\"off\", " : "") +
         "or a CPU list such as \"0-3,8\"";
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '+' || c == '.';
  });
}

// Empty: leave.
Result<std::optional<std::string>> read_value(const json::Reader& reader, std::string_view key, const Knob& knob) {
  const json::Value* value = reader.find(key);
  if (value == nullptr || *value == "leave") return std::optional<std::string>();
  if (knob.takes == Takes::kNumber) {
    const bool fits =
        value->is_number_integer() && value->get<std::int64_t>() >= knob.low &&
        value->get<std::int64_t>() <= knob.high &&
        (!value->is_number_unsigned() || value->get<std::uint64_t>() <= static_cast<std::uint64_t>(knob.high));
    if (!fits) return wrong(reader, key, words_of(knob));
    return std::optional(std::to_string(value->get<std::int64_t>()));
  }
  if (!value->is_string()) return wrong(reader, key, words_of(knob));
  const std::string text = value->get<std::string>();
  if (knob.takes == Takes::kWords) {
    const auto word = std::find_if(knob.words.begin(), knob.words.end(), [&](const Word& w) { return w.said == text; });
    if (word == knob.words.end()) return wrong(reader, key, words_of(knob));
    return std::optional(std::string(word->written));
  }
  if (knob.takes == Takes::kOffered) {
    if (!is_word(text)) return wrong(reader, key, words_of(knob));
    return std::optional(text);
  }
  const bool queue = knob.scope == Scope::kRxQueue || knob.scope == Scope::kTxQueue;
  if (text == "housekeeping" || (text == "off" && queue) || (text == "local" && (queue || knob.scope == Scope::kIrq))) {
    return std::optional(text);
  }
  const auto cpus = CpuSet::parse_list(text);
  if (!cpus || cpus->empty()) return wrong(reader, key, words_of(knob));
  return std::optional(cpus->list());
}

Result<void> read_knob(const json::Reader& reader, std::string_view section, const Knob& knob,
                       std::vector<Wish>& wishes) {
  const std::string_view key = knob.name.substr(section.size());
  const json::Value* value = reader.find(key);
  const bool by_queue = knob.scope == Scope::kRxQueue || knob.scope == Scope::kTxQueue || knob.scope == Scope::kIrq;
  if (value == nullptr) return {};
  if (!value->is_object() || !by_queue) {
    PODLANE_TRY_ASSIGN(auto wanted, read_value(reader, key, knob));
    if (wanted) wishes.push_back({&knob, std::move(*wanted), {}, reader.path_of(key)});
    return {};
  }
  // {"0": "2", "1": "3"}: each queue for itself.
  PODLANE_TRY_ASSIGN(const json::Reader queues, json::Reader::open(*value, reader.path_of(key)));
  for (const auto& [queue_text, cpus] : value->items()) {
    unsigned queue = 0;
    const char* const end = queue_text.data() + queue_text.size();
    const auto parsed = std::from_chars(queue_text.data(), end, queue);
    if (parsed.ec != std::errc() || parsed.ptr != end || queue > 65535) {
      return fail(Errc::kInvalid, "unknown key '" + queues.path_of(queue_text) + "'; keys here are numbers of queues");
    }
    PODLANE_TRY_ASSIGN(auto wanted, read_value(queues, queue_text, knob));
    if (wanted) wishes.push_back({&knob, std::move(*wanted), queue, queues.path_of(queue_text)});
  }
  return {};
}

// Every knob whose name begins with the section.
Result<void> read_section(const json::Reader& reader, std::string_view section, std::vector<Wish>& wishes) {
  for (const Knob& knob : kKnobs) {
    if (knob.name.starts_with(section)) PODLANE_TRY(read_knob(reader, section, knob, wishes));
  }
  return {};
}

Result<std::optional<CpuSet>> read_cpus(const json::Reader& reader, std::string_view key) {
  PODLANE_TRY_ASSIGN(const auto text, reader.optional_string(key));
  if (!text || *text == "auto") return std::optional<CpuSet>();
  auto cpus = CpuSet::parse_list(*text);
  if (!cpus || cpus->empty()) return wrong(reader, key, "must be \"auto\" or a CPU list such as \"0-3,8\"");
  return std::optional(std::move(*cpus));
}

Result<void> read_cpus_section(const json::Reader& top, Profile& profile) {
  PODLANE_TRY_ASSIGN(const auto cpus, top.optional_object("cpus"));
  if (!cpus) return {};
  PODLANE_TRY(refuse_unknown(*cpus, "cpus.", {"lanes", "housekeeping", "siblings"}));
  PODLANE_TRY_ASSIGN(profile.lanes, read_cpus(*cpus, "lanes"));
  PODLANE_TRY_ASSIGN(profile.housekeeping, read_cpus(*cpus, "housekeeping"));
  PODLANE_TRY_ASSIGN(const auto siblings, cpus->optional_choice("siblings", {"keepIdle", "allow"}));
  profile.siblings_idle = siblings.value_or("keepIdle") == "keepIdle";
  if (profile.lanes && profile.housekeeping && profile.lanes->meets(*profile.housekeeping)) {
    return fail(Errc::kInvalid, "cpus.lanes \"" + profile.lanes->list() + "\" and cpus.housekeeping \"" +
                                    profile.housekeeping->list() + "\" share CPUs " +
                                    (*profile.lanes & *profile.housekeeping).list() +
                                    "; a CPU must be in one of them only");
  }
  return read_section(*cpus, "cpus.", profile.node);
}

Result<void> read_interrupts(const json::Reader& top, Profile& profile) {
  PODLANE_TRY_ASSIGN(const auto interrupts, top.optional_object("interrupts"));
  if (!interrupts) return {};
  PODLANE_TRY(refuse_unknown(*interrupts, "interrupts.", {"irqs"}));
  PODLANE_TRY(read_section(*interrupts, "interrupts.", profile.node));
  const Knob& knob = *find_knob("irqs");
  PODLANE_TRY_ASSIGN(auto wanted, read_value(*interrupts, "irqs", knob));
  if (wanted) profile.irqs = Wish{&knob, std::move(*wanted), {}, interrupts->path_of("irqs")};
  return {};
}

// Sections that hold knobs of the node and nothing else.
Result<void> read_plain(const json::Reader& top, std::string_view name, std::vector<Wish>& wishes) {
  PODLANE_TRY_ASSIGN(const auto section, top.optional_object(name));
  if (!section) return {};
  const std::string prefix = std::string(name) + ".";
  PODLANE_TRY(refuse_unknown(*section, prefix, {}));
  return read_section(*section, prefix, wishes);
}

Result<std::string> read_pattern(const json::Reader& match, std::string_view key) {
  PODLANE_TRY_ASSIGN(const auto text, match.optional_string(key));
  if (text && (text->empty() || text->size() > kMaxPattern)) {
    return wrong(match, key, "must be a pattern of 1 to 64 characters, such as \"ens*\"");
  }
  return text.value_or("");
}

Result<NicRule> read_nic(const json::Reader& nic) {
  NicRule rule{.place = nic.path()};
  PODLANE_TRY(refuse_unknown(nic, "nics.", {"match", "irqs"}));
  PODLANE_TRY_ASSIGN(const auto match, nic.optional_object("match"));
  if (!match || match->value().empty()) {
    return fail(
        Errc::kInvalid,
        nic.path_of("match") + " must say which NICs are meant: one or more of name, pciAddress, driver, numaNode");
  }
  PODLANE_TRY(match->refuse_unknown({"name", "pciAddress", "driver", "numaNode"}));
  PODLANE_TRY_ASSIGN(rule.match.name, read_pattern(*match, "name"));
  PODLANE_TRY_ASSIGN(rule.match.pci, read_pattern(*match, "pciAddress"));
  PODLANE_TRY_ASSIGN(rule.match.driver, read_pattern(*match, "driver"));
  PODLANE_TRY_ASSIGN(const auto numa_node, match->optional_integer("numaNode", 0, 1023));
  if (numa_node) rule.match.numa_node = static_cast<int>(*numa_node);
  PODLANE_TRY(read_section(nic, "nics.", rule.wishes));
  PODLANE_TRY(read_knob(nic, "", *find_knob("irqs"), rule.wishes));
  const auto wish = [&](std::string_view name) -> const Wish* {
    const auto it =
        std::find_if(rule.wishes.begin(), rule.wishes.end(), [&](const Wish& w) { return w.knob->name == name; });
    return it == rule.wishes.end() ? nullptr : &*it;
  };
  const Wish* const defer = wish("nics.deferHardIrqs");
  const Wish* const timeout = wish("nics.groFlushTimeoutNs");
  if (defer != nullptr && defer->value != "0" && (timeout == nullptr || timeout->value == "0")) {
    return wrong(nic, "deferHardIrqs", "needs groFlushTimeoutNs above 0, such as 200000: without it packets would lie");
  }
  return rule;
}

Result<void> read_nics(const json::Reader& top, Profile& profile) {
  PODLANE_TRY_ASSIGN(const auto nics, top.optional_objects("nics"));
  if (nics.size() > kMaxRules)
    return fail(Errc::kInvalid, "nics has " + std::to_string(nics.size()) + " rules; 256 are enough");
  for (const json::Reader& nic : nics) {
    PODLANE_TRY_ASSIGN(NicRule rule, read_nic(nic));
    profile.nics.push_back(std::move(rule));
  }
  return {};
}

// "2Mi", "1Gi"; sizes of other architectures likewise.
std::uint64_t size_in_kib(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc() || number == 0 || number > 1024) return 0;
  return unit == "Ki" ? number : unit == "Mi" ? number << 10 : unit == "Gi" ? number << 20 : 0;
}

Result<void> read_huge_pages(const json::Reader& top, Profile& profile) {
  PODLANE_TRY_ASSIGN(const auto list, top.optional_objects("hugepages"));
  if (list.size() > kMaxRules) return fail(Errc::kInvalid, "hugepages has more than 256 entries");
  std::set<std::pair<std::uint64_t, int>> seen;
  for (const json::Reader& entry : list) {
    PODLANE_TRY(entry.refuse_unknown({"size", "count", "numaNode"}));
    HugePageWish wish{.place = entry.path()};
    PODLANE_TRY_ASSIGN(const std::string size, entry.string("size"));
    wish.size_kib = size_in_kib(size);
    if (wish.size_kib == 0) return wrong(entry, "size", "must be a size such as \"2Mi\" or \"1Gi\"");
    PODLANE_TRY_ASSIGN(wish.count, entry.integer("count", 0, find_knob("hugepages")->high));
    const json::Value* node = entry.find("numaNode");
    if (node != nullptr && *node != "each") {
      PODLANE_TRY_ASSIGN(const std::int64_t number, entry.integer("numaNode", 0, 1023));
      wish.numa_node = static_cast<unsigned>(number);
    }
    const int seen_node = wish.numa_node ? static_cast<int>(*wish.numa_node) : -1;
    if (!seen.emplace(wish.size_kib, seen_node).second) {
      return wrong(entry, "size", "stands twice for the same NUMA node; keep one entry");
    }
    profile.huge_pages.push_back(std::move(wish));
  }
  return {};
}

Result<void> read_kubelet(const json::Reader& top, Profile& profile) {
  PODLANE_TRY_ASSIGN(const auto kubelet, top.optional_object("kubelet"));
  if (!kubelet) return {};
  KubeletWish& wish = profile.kubelet;
  PODLANE_TRY(kubelet->refuse_unknown({"apply", "cpuManagerPolicy", "cpuManagerPolicyOptions", "reservedSystemCPUs",
                                       "topologyManagerPolicy", "memoryManagerPolicy"}));
  PODLANE_TRY_ASSIGN(const auto apply, kubelet->optional_string("apply"));
  if (apply == "set") return wrong(*kubelet, "apply", "is not built yet; it must be one of leave, advise");
  PODLANE_TRY_ASSIGN(const auto known, kubelet->optional_choice("apply", {"leave", "advise"}));
  wish.advise = known.value_or("advise") == "advise";
  const auto leave_is_empty = [](std::optional<std::string> text) {
    return text.value_or("leave") == "leave" ? "" : *text;
  };
  PODLANE_TRY_ASSIGN(const auto cpu, kubelet->optional_choice("cpuManagerPolicy", {"leave", "none", "static"}));
  PODLANE_TRY_ASSIGN(const auto topology,
                     kubelet->optional_choice("topologyManagerPolicy",
                                              {"leave", "none", "best-effort", "restricted", "single-numa-node"}));
  PODLANE_TRY_ASSIGN(const auto memory, kubelet->optional_choice("memoryManagerPolicy", {"leave", "None", "Static"}));
  wish.cpu_policy = leave_is_empty(cpu);
  wish.topology_policy = leave_is_empty(topology);
  wish.memory_policy = leave_is_empty(memory);
  PODLANE_TRY_ASSIGN(wish.reserved, read_cpus(*kubelet, "reservedSystemCPUs"));
  PODLANE_TRY_ASSIGN(const auto options, kubelet->optional_object("cpuManagerPolicyOptions"));
  if (!options) return {};
  // Stable and beta options of Kubernetes 1.36.
  PODLANE_TRY(
      options->refuse_unknown({"full-pcpus-only", "strict-cpu-reservation", "prefer-align-cpus-by-uncorecache",
                               "distribute-cpus-across-numa", "align-by-socket", "distribute-cpus-across-cores"}));
  for (const auto& [option, value] : options->value().items()) {
    PODLANE_TRY_ASSIGN(const auto on, options->optional_choice(option, {"true", "false"}));
    if (on) wish.options.emplace_back(option, *on);
  }
  return {};
}

Result<void> read_boot(const json::Reader& top, Profile& profile) {
  PODLANE_TRY_ASSIGN(const auto boot, top.optional_object("boot"));
  if (!boot) return {};
  PODLANE_TRY(boot->refuse_unknown({"advise", "args", "firmware"}));
  PODLANE_TRY_ASSIGN(const auto advise, boot->optional_boolean("advise"));
  PODLANE_TRY_ASSIGN(profile.boot.arguments, boot->optional_strings("args"));
  PODLANE_TRY_ASSIGN(const auto firmware, boot->optional_choice("firmware", {"leave", "ultra-low-latency"}));
  profile.boot.low_latency_firmware = firmware.value_or("leave") != "leave";
  profile.boot.advise = advise.value_or(true);
  for (const std::string& argument : profile.boot.arguments) {
    const bool plain = !argument.empty() && argument.size() <= 512 &&
                       std::all_of(argument.begin(), argument.end(), [](unsigned char c) {
                         return std::isalnum(c) != 0 ||
                                std::string_view("_-.,:=+/").find(static_cast<char>(c)) != std::string_view::npos;
                       });
    // It ends up in a command line that a person copies into a root shell.
    if (!plain)
      return wrong(*boot, "args", "has \"" + argument + "\"; an argument has no blanks, quotes or shell signs");
    if (argument.starts_with("isolcpus=") && (argument.ends_with("-N") || argument.find("-N,") != argument.npos)) {
      return wrong(*boot, "args", "has \"" + argument + "\"; write the last CPU's number instead of N");
    }
  }
  return {};
}

}  // namespace

Result<Profile> parse_profile(std::string_view text) {
  Profile profile;
  PODLANE_TRY_ASSIGN(const json::Value document, json::parse(text));
  PODLANE_TRY_ASSIGN(const json::Reader top, json::Reader::open(document, ""));
  PODLANE_TRY(top.refuse_unknown({"name", "mode", "onRemove", "resyncSeconds", "cpus", "power", "interrupts", "nics",
                                  "hugepages", "memory", "sysctls", "kubelet", "boot"}));
  PODLANE_TRY_ASSIGN(const auto name, top.optional_string("name"));
  profile.name = name.value_or("unnamed");
  PODLANE_TRY_ASSIGN(const auto mode, top.optional_choice("mode", {"observe", "enforce"}));
  profile.mode = mode.value_or("observe") == "enforce" ? ProfileMode::kEnforce : ProfileMode::kObserve;
  PODLANE_TRY_ASSIGN(const auto on_remove, top.optional_choice("onRemove", {"restore", "keep"}));
  profile.restore_on_remove = on_remove.value_or("restore") == "restore";
  PODLANE_TRY_ASSIGN(const auto resync, top.optional_integer("resyncSeconds", 30, 86400));
  profile.resync_seconds = static_cast<unsigned>(resync.value_or(profile.resync_seconds));
  PODLANE_TRY(read_cpus_section(top, profile));
  PODLANE_TRY(read_interrupts(top, profile));
  PODLANE_TRY(read_plain(top, "memory", profile.node));
  PODLANE_TRY(read_plain(top, "sysctls", profile.node));
  PODLANE_TRY(read_plain(top, "power", profile.power));
  PODLANE_TRY(read_nics(top, profile));
  PODLANE_TRY(read_huge_pages(top, profile));
  PODLANE_TRY(read_kubelet(top, profile));
  PODLANE_TRY(read_boot(top, profile));
  return profile;
}

}  // namespace podlane::nodeconfig
