#include "ctl/doctor/sight.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "ctl/doctor/pod.hpp"

namespace podlane::doctor {

namespace {

constexpr std::size_t kMaxWord = 32;  // No kernel has a longer one in the files that are read.

// A value as it is shown in words: what a file holds may be long, or no text at all.
std::string quoted(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, 40)) shown += c >= ' ' && c <= '~' ? c : '?';
  return shown + (text.size() > 40 ? "…\"" : "\"");
}

std::string filled(const std::string& path, unsigned number) {
  const std::size_t at = path.find('%');
  return path.substr(0, at) + std::to_string(number) + path.substr(at + 1);
}

}  // namespace

std::optional<std::int64_t> to_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view kBlanks = " \t\n\r";
  for (std::size_t at = text.find_first_not_of(kBlanks); at != text.npos; at = text.find_first_not_of(kBlanks, at)) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), value < 10 ? "%.1f" : "%.0f", value);
  const std::string_view seen = text;
  return std::string(seen.ends_with(".0") ? seen.substr(0, seen.size() - 2) : seen);
}

Read<std::string> Sight::text(const std::string& path) const {
  const Readings::File* file = readings.find(path);
  if (file == nullptr || !file->text) {
    if (file != nullptr && file->denied) return std::unexpected(unknown(path + ": no permission to read it"));
    return std::unexpected(not_applicable("there is no " + path));
  }
  return *file->text;
}

Read<std::int64_t> Sight::number(const std::string& path) const {
  const auto found = text(path);
  if (!found) return std::unexpected(found.error());
  const auto value = to_integer(*found);
  if (!value) return std::unexpected(unknown(path + " reads " + quoted(*found) + ", which is no number"));
  return *value;
}

Read<CpuSet> Sight::list(const std::string& path) const {
  const auto found = text(path);
  if (!found) return std::unexpected(found.error());
  auto set = CpuSet::parse_list(*found);
  if (!set) return std::unexpected(unknown(path + " reads " + quoted(*found) + ", which is no list of CPUs"));
  return std::move(*set);
}

Read<CpuSet> Sight::mask(const std::string& path) const {
  const auto found = text(path);
  if (!found) return std::unexpected(found.error());
  auto set = CpuSet::parse_mask(*found);
  if (!set || found->empty()) {
    return std::unexpected(unknown(path + " reads " + quoted(*found) + ", which is no mask of CPUs"));
  }
  return std::move(*set);
}

std::vector<const Lane*> Sight::lanes_on(const std::string& netdev) const {
  std::vector<const Lane*> found;
  for (const Lane& lane : lanes) {
    if (lane.netdev == netdev) found.push_back(&lane);
  }
  return found;
}

bool Sight::has_mode(std::string_view mode) const {
  return std::any_of(lanes.begin(), lanes.end(), [&](const Lane& lane) { return lane.mode == mode; });
}

bool Sight::is_virtual() const {
  const auto info = text("/proc/cpuinfo");
  if (!info) return false;
  const auto words = words_of(std::string_view(*info).substr(0, 1 << 14));  // The first processor speaks for all.
  return std::find(words.begin(), words.end(), "hypervisor") != words.end();
}

Verdict worst_of(std::vector<Verdict> verdicts, Verdict when_none) {
  if (verdicts.empty()) return when_none;
  const auto worst = std::min_element(verdicts.begin(), verdicts.end(), [](const Verdict& a, const Verdict& b) {
                       return a.outcome < b.outcome;
                     })->outcome;
  Verdict all{.outcome = worst};
  for (const Verdict& one : verdicts) {
    if (one.outcome != worst) continue;
    if (all.is.find(one.is) == std::string::npos) all.is.append(all.is.empty() ? "" : "; ").append(one.is);
    if (!one.fix.empty() && all.fix.find(one.fix) == std::string::npos) {
      all.fix.append(all.fix.empty() ? "" : "; ").append(one.fix);
    }
    if (one.effect_us && one.effect_us > all.effect_us) {
      all.effect_us = one.effect_us;
      all.measured = one.measured;
    }
    if (one.severity) all.severity = one.severity;
  }
  return all;
}

Verdict of_each_nic(const Sight& sight, const std::function<Verdict(const Nic&)>& judge) {
  std::vector<Verdict> verdicts;
  for (const Nic* nic : sight.nics) verdicts.push_back(judge(*nic));
  return worst_of(std::move(verdicts), not_applicable("there is no NIC with a device here"));
}

Verdict judge_number(const Sight& sight, const std::string& path, const std::function<bool(std::int64_t)>& good,
                     const std::string& fix) {
  const auto value = sight.number(path);
  if (!value) return value.error();
  const std::string is = path + " is " + std::to_string(*value);
  return good(*value) ? pass(is) : bad(is, fix);
}

Read<std::string> chosen_word(const Sight& sight, const std::string& path) {
  const auto text = sight.text(path);
  if (!text) return std::unexpected(text.error());
  const std::size_t open = text->find('['), close = text->find(']');
  if (open != std::string::npos && close != std::string::npos && open < close) {
    return text->substr(open + 1, close - open - 1);
  }
  const auto words = words_of(*text);
  const bool plain = words.size() == 1 && words[0].size() <= kMaxWord &&
                     std::all_of(words[0].begin(), words[0].end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!plain) return std::unexpected(unknown(path + " reads " + quoted(*text) + ", which is no word"));
  return std::string(words[0]);
}

Read<std::vector<std::pair<std::string, CpuSet>>> by_value(const Sight& sight, const CpuSet& cpus,
                                                           const std::string& path) {
  std::vector<std::pair<std::string, CpuSet>> groups;
  for (const unsigned cpu : cpus.cpus()) {
    const auto word = chosen_word(sight, filled(path, cpu));
    if (!word) {
      if (word.error().outcome == Outcome::kUnknown) return std::unexpected(word.error());
      continue;
    }
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& entry) { return entry.first == *word; });
    if (group != groups.end()) group->second.add(cpu);
    else groups.emplace_back(*word, CpuSet()).second.add(cpu);
  }
  if (groups.empty()) return std::unexpected(not_applicable("there is no " + path));
  return groups;
}

Sight make_sight(const Facts& facts, const Readings& readings, const CpuSet& cpus, const std::string& nic) {
  Sight sight{.facts = facts, .readings = readings};
  if (const auto text = sight.text(nodeconfig::kLanesFile)) {
    if (auto lanes = parse_lanes(*text)) sight.lanes = std::move(*lanes);
    else sight.lanes_problem = std::string(nodeconfig::kLanesFile) + ": " + lanes.error().message();
  } else if (text.error().outcome == Outcome::kUnknown) {
    sight.lanes_problem = text.error().is;
  }
  const CpuSet owned = facts.kubelet.exclusive_cpus() & facts.online;
  const CpuSet apart = (sight.list("/sys/devices/system/cpu/isolated").value_or(CpuSet()) |
                        sight.list("/sys/devices/system/cpu/nohz_full").value_or(CpuSet()) |
                        sight.list("/sys/fs/cgroup/cpuset.cpus.isolated").value_or(CpuSet())) &
                       facts.online;
  if (!cpus.empty()) {
    sight.lane_cpus = cpus & facts.online;
    sight.lane_cpus_from = "as --cpus says";
  } else if (!owned.empty()) {
    sight.lane_cpus = owned;
    sight.lane_cpus_from = "given to pods by the kubelet";
  } else if (!apart.empty()) {
    sight.lane_cpus = apart;
    sight.lane_cpus_from = "isolated or tickless";
  }
  for (const Nic& one : facts.nics) {
    if (nic.empty() ? !sight.lanes_on(one.name).empty() : one.name == nic) sight.nics.push_back(&one);
  }
  if (sight.nics.empty() && nic.empty()) {
    for (const Nic& one : facts.nics) {
      if (!one.driver.empty()) sight.nics.push_back(&one);
    }
  }
  return sight;
}

void narrow_to_pod(Sight& sight) {
  std::erase_if(sight.lanes, [&](const Lane& lane) {
    return lane.pod != sight.pod->name || lane.name_space != sight.pod->name_space;
  });
  std::erase_if(sight.nics, [&](const Nic* nic) { return sight.lanes_on(nic->name).empty(); });
  const CpuSet cpus = sight.pod->cpus & sight.facts.online;
  if (cpus.empty() || cpus == sight.facts.online) return;  // A pod that may run anywhere has no CPU to look after.
  sight.lane_cpus = cpus;
  sight.lane_cpus_from = "the pod's";
}

}  // namespace podlane::doctor
