#include "relay/options.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>

namespace podlane::relay {

namespace {

constexpr std::string_view kLanesPrefix = "PODLANE_LANES_";
constexpr std::uint32_t kCpuMax = 1023;

struct Setting {
  std::string_view option, variable;
  Result<void> (*apply)(Options& options, std::string_view value);
};

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

Result<void> apply_lane_dir(Options& options, std::string_view value) {
  while (!value.empty()) {
    const std::size_t colon = value.find(':');
    if (colon != 0) options.lane_dirs.emplace_back(value.substr(0, colon));
    if (colon == std::string_view::npos) break;
    value.remove_prefix(colon + 1);
  }
  return {};
}

Result<void> apply_mode(Options& options, std::string_view value) {
  if (value == "spinning") options.mode = xsk::WaitMode::kSpinning;
  else if (value == "interrupt") options.mode = xsk::WaitMode::kInterrupt;
  else if (value == "adaptive") return fail(Errc::kUnsupported, "mode 'adaptive' is not built yet: use spinning or interrupt");
  else return fail(Errc::kInvalid, "mode '" + std::string(value) + "' is not one of spinning, interrupt");
  return {};
}

Result<void> apply_cpu(Options& options, std::string_view value) {
  PODLANE_TRY_ASSIGN(options.cpus, parse_cpu_list(value));
  return {};
}

Result<void> apply_wait(Options& options, std::string_view value) {
  const auto seconds = number(value);
  if (!seconds || *seconds > 86400) {
    return fail(Errc::kInvalid, "wait '" + std::string(value) + "' must be 0 to 86400 seconds");
  }
  options.wait = std::chrono::seconds(*seconds);
  return {};
}

Result<void> apply_log_level(Options& options, std::string_view value) {
  PODLANE_TRY_ASSIGN(options.log_level, parse_log_level(value));
  return {};
}

constexpr Setting kSettings[] = {
    {"--lane-dir", "PODLANE_LANE_DIR", apply_lane_dir}, {"--mode", "PODLANE_MODE", apply_mode},
    {"--cpu", "PODLANE_CPU", apply_cpu},                {"--wait", "PODLANE_WAIT", apply_wait},
    {"--log-level", "PODLANE_LOG_LEVEL", apply_log_level},
};

Result<void> read_arguments(Options& options, const std::vector<std::string>& arguments,
                            std::vector<std::string_view>& given) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--check") options.check = true;
    else if (argument == "--version") options.version = true;
    else if (argument == "--help" || argument == "-h") options.help = true;
    else {
      const std::size_t equals = argument.find('=');
      const std::string_view name = argument.substr(0, equals);
      const auto setting =
          std::find_if(std::begin(kSettings), std::end(kSettings), [&](const Setting& s) { return s.option == name; });
      if (setting == std::end(kSettings)) {
        return fail(Errc::kInvalid, "unknown option '" + std::string(argument) + "': see --help");
      }
      if (equals == std::string_view::npos && i + 1 == arguments.size()) {
        return fail(Errc::kInvalid, "option " + std::string(name) + " needs a value");
      }
      const std::string_view value =
          equals == std::string_view::npos ? std::string_view(arguments[++i]) : argument.substr(equals + 1);
      if (auto applied = setting->apply(options, value); !applied) {
        return std::unexpected(std::move(applied).error().with("option", name));
      }
      given.push_back(setting->option);
    }
  }
  return {};
}

Result<void> read_environment(Options& options, const std::vector<std::string>& environment,
                              const std::vector<std::string_view>& given) {
  for (const std::string& entry : environment) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    for (const Setting& setting : kSettings) {
      if (name != setting.variable || std::find(given.begin(), given.end(), setting.option) != given.end()) continue;
      if (auto applied = setting.apply(options, std::string_view(entry).substr(name.size() + 1)); !applied) {
        return std::unexpected(std::move(applied).error().with("variable", name));
      }
    }
  }
  if (!options.lane_dirs.empty()) return {};
  for (const std::string& entry : environment) {
    if (entry.starts_with(kLanesPrefix) && entry.find('=') != std::string::npos) {
      options.lane_dirs.push_back(entry.substr(entry.find('=') + 1));
    }
  }
  std::sort(options.lane_dirs.begin(), options.lane_dirs.end());
  return {};
}

}  // namespace

Result<Options> parse_options(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  Options options;
  std::vector<std::string_view> given;
  PODLANE_TRY(read_arguments(options, arguments, given));
  if (options.help || options.version) return options;
  PODLANE_TRY(read_environment(options, environment, given));
  if (options.lane_dirs.empty()) {
    return fail(Errc::kInvalid, "no lane: give --lane-dir, or PODLANE_LANES_<POOL> as the device plugin sets it");
  }
  return options;
}

std::string_view usage() {
  return "usage: podlane-relay [--lane-dir DIR[:DIR...]] [--mode spinning|interrupt] [--cpu LIST] [--wait SECONDS]\n"
         "                     [--log-level debug|info|warn|error] [--check] [--version]\n"
         "Moves packets between the lanes of this pod and their TUN interfaces. Lanes: every <n> below each DIR; without\n"
         "--lane-dir below each directory that a PODLANE_LANES_<POOL> variable names. Every option exists as a variable\n"
         "too: PODLANE_LANE_DIR, PODLANE_MODE, PODLANE_CPU, PODLANE_WAIT, PODLANE_LOG_LEVEL.\n"
         "Exit codes: 0 ended by SIGTERM, 2 bad options, 3 device gone, 4 refused, 5 no answer in time, 6 cannot run.\n";
}

Result<std::vector<CpuId>> parse_cpu_list(std::string_view text) {
  std::vector<CpuId> cpus;
  const auto wrong = [&] {
    return fail(Errc::kInvalid, "CPU list '" + std::string(text) + "' must be like 2 or 2-3 or 0,2-3, each 0 to " +
                                    std::to_string(kCpuMax));
  };
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    const std::size_t dash = item.find('-');
    const auto low = number(item.substr(0, dash));
    const auto high = dash == std::string_view::npos ? low : number(item.substr(dash + 1));
    if (!low || !high || *high < *low || *high > kCpuMax) return wrong();
    for (std::uint32_t cpu = *low; cpu <= *high; ++cpu) cpus.push_back(CpuId(cpu));
    if (comma == std::string_view::npos) return cpus;
    rest.remove_prefix(comma + 1);
  }
}

Result<std::vector<std::string>> find_lanes(const std::vector<std::string>& lane_dirs) {
  std::vector<std::string> lanes;
  for (const std::string& directory : lane_dirs) {
    struct stat status {};
    if (::stat((directory + "/handover.sock").c_str(), &status) == 0) {
      lanes.push_back(directory);
      continue;
    }
    DIR* listing = ::opendir(directory.c_str());
    if (listing == nullptr) return fail_errno("open lane directory", directory);
    std::vector<std::uint32_t> numbers;
    while (const dirent* entry = ::readdir(listing)) {
      if (const auto n = number(entry->d_name)) numbers.push_back(*n);
    }
    ::closedir(listing);
    if (numbers.empty()) return fail(Errc::kNotFound, "lane directory " + directory + " holds no lane (0, 1, ...)");
    std::sort(numbers.begin(), numbers.end());
    for (const std::uint32_t n : numbers) lanes.push_back(directory + "/" + std::to_string(n));
  }
  return lanes;
}

}  // namespace podlane::relay
