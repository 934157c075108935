#include "deviceplugin/inventory/onload_node.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "lib/base/file.hpp"

namespace podlane::dp {

namespace {

constexpr std::size_t kMaxLibraryBytes = 64 << 20;
constexpr std::size_t kMaxSmallFile = 4096;

struct NodeName {
  const char* path;
  bool required;
};
// sfc_char is for ef_vi and TCPDirect, sfc_affinity of older releases; sockets need the first two.
constexpr std::array<NodeName, 4> kDeviceNodes{
    {{"/dev/onload", true}, {"/dev/onload_epoll", true}, {"/dev/sfc_char", false}, {"/dev/sfc_affinity", false}}};

constexpr std::array<const char*, 6> kLibraryDirectories{"/usr/lib64",     "/usr/lib/x86_64-linux-gnu",
                                                         "/usr/lib",       "/usr/local/lib64",
                                                         "/usr/local/lib", "/opt/onload/usr/lib64"};

// Drivers whose NICs Onload drives itself.
constexpr std::array<std::string_view, 3> kNativeDrivers{"sfc", "xilinx_efct", "efct"};

// Drivers with XDP of their own in Linux 6.12.
constexpr auto kXdpDrivers = std::to_array<std::string_view>(
    {"atlantic",   "bnxt_en", "ena",    "fec",   "fsl_dpaa2_eth", "fsl_enetc",      "gve",  "hv_netvsc", "i40e",
     "ice",        "igb",     "igc",    "ixgbe", "ixgbevf",       "lan966x-switch", "mana", "mlx4_core", "mlx5_core",
     "mvneta",     "mvpp2",   "netsec", "nfp",   "qede",          "rvu_nicpf",      "sfc",  "st_gmac",   "tsnep",
     "virtio_net", "vmxnet3"});

template <typename List>
bool holds(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// Empty where there is no such file.
std::string small_file(const std::string& path) {
  auto text = read_file(path, kMaxSmallFile);
  return text ? trimmed(std::move(*text)) : std::string();
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(directory.c_str()), &::closedir);
  while (const dirent* const entry = handle == nullptr ? nullptr : ::readdir(handle.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string link_target_name(const std::string& path) {
  std::array<char, 4096> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  if (length <= 0) return {};
  const std::string_view whole(target.data(), static_cast<std::size_t>(length));
  return std::string(whole.substr(whole.rfind('/') + 1));
}

// "  uk_intf_ver: 94e6…" of /proc/driver/onload/version.
std::string field_of(const std::string& text, std::string_view name) {
  const std::string head = std::string(name) + ": ";
  const std::size_t at = text.find(head);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + head.size();
  return trimmed(text.substr(begin, text.find('\n', begin) - begin));
}

}  // namespace

OnloadNode OnloadReader::read() {
  OnloadNode node;
  read_module(node);
  if (node.why.empty()) read_device_nodes(node);
  if (node.why.empty()) read_libraries(node);
  read_nics(node);
  return node;
}

void OnloadReader::read_module(OnloadNode& node) const {
  const std::string module = roots_.sysfs + "/module/onload";
  if (!exists(module)) {
    node.why = "the kernel module onload is not loaded on this node (no " + module + "); load it: onload_tool reload";
    return;
  }
  node.version = small_file(module + "/version");
  node.interface_version = field_of(small_file(roots_.proc + "/driver/onload/version"), "uk_intf_ver");
  const std::string state = small_file(module + "/initstate");
  if (!state.empty() && state != "live") {
    node.why = "the kernel module onload is '" + state + "', not live";
  } else if (!exists(roots_.sysfs + "/module/sfc_resource")) {
    node.why = "the kernel module sfc_resource is not loaded on this node; load it: onload_tool reload";
  }
}

void OnloadReader::read_device_nodes(OnloadNode& node) const {
  for (const NodeName& wanted : kDeviceNodes) {
    struct stat info {};
    const std::string seen = roots_.host + wanted.path;
    const bool is_device = ::stat(seen.c_str(), &info) == 0 && S_ISCHR(info.st_mode);
    if (!is_device) {
      if (!wanted.required) continue;
      node.why = "there is no device node " + std::string(wanted.path) +
                 (roots_.host.empty() ? std::string() : " (looked for at " + seen + ")") +
                 " although the module is loaded";
      return;
    }
    node.device_nodes.emplace_back(wanted.path);
    if ((info.st_mode & 0006) == 0006) continue;
    node.warnings.push_back(std::string(wanted.path) +
                            " is not open to everybody: containers that do not run as root cannot use Onload "
                            "(udev rule 82-onload.rules)");
  }
}

void OnloadReader::read_libraries(OnloadNode& node) {
  for (const char* directory : kLibraryDirectories) {
    const std::string path = std::string(directory) + "/libonload.so";
    if (!exists(roots_.host + path)) continue;
    node.libraries.push_back(path);
    const std::string extension = std::string(directory) + "/libonload_ext.so";
    // Programs that are linked with it look for it by this name.
    for (const char* suffix : {"", ".2", ".1"}) {
      if (exists(roots_.host + extension + suffix)) node.libraries.push_back(extension + suffix);
    }
    break;
  }
  if (node.libraries.empty()) {
    std::string list;
    for (const char* directory : kLibraryDirectories) list.append(list.empty() ? "" : ", ").append(directory);
    node.why = "libonload.so is in none of " + list + (roots_.host.empty() ? std::string() : " below " + roots_.host);
    return;
  }
  if (!is_of_the_same_build(node)) {
    node.why = node.libraries.front() + " is of another build than the loaded module " + node.version +
               ", which refuses it; install and load one build: onload_install, onload_tool reload";
  }
}

// The library holds the hash of the interface to the module as text; a build that does not is told by its version.
bool OnloadReader::is_of_the_same_build(const OnloadNode& node) {
  const std::string version = node.version.substr(0, node.version.find(' '));
  if (node.interface_version.empty() && version.empty()) return true;  // Nothing to compare with.
  const std::string path = roots_.host + node.libraries.front();
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return false;
  const std::string now = path + " " + std::to_string(info.st_ino) + " " + std::to_string(info.st_size) + " " +
                          std::to_string(info.st_mtime) + " " + node.interface_version + " " + version;
  if (now == checked_) return same_;
  const auto bytes = read_file(path, kMaxLibraryBytes);
  const auto has = [&](const std::string& text) { return !text.empty() && bytes->find(text) != std::string::npos; };
  same_ = bytes && (has(node.interface_version) || has(version));
  checked_ = now;
  return same_;
}

void OnloadReader::read_nics(OnloadNode& node) const {
  for (const std::string& name : names_in(roots_.sysfs + "/class/net")) node.nics.push_back(read_nic(name));
  if (!node.why.empty()) return;
  if (std::none_of(node.nics.begin(), node.nics.end(), [](const OnloadNic& nic) { return nic.accelerated; })) {
    std::string able;
    for (const OnloadNic& nic : node.nics) {
      if (nic.can_af_xdp) able.append(able.empty() ? "" : ", ").append(nic.name);
    }
    node.why = "Onload accelerates no NIC of this node; " +
               (able.empty() ? std::string("none has a driver with XDP either")
                             : "one of " + able + " can be registered: echo NAME > " + roots_.sysfs +
                                   "/module/sfc_resource/afxdp/register");
  }
}

OnloadNic OnloadReader::read_nic(const std::string& name) const {
  const std::string directory = roots_.sysfs + "/class/net/" + name;
  OnloadNic nic{.name = name, .driver = link_target_name(directory + "/device/driver")};
  std::uint32_t queues = 0;
  for (const std::string& queue : names_in(directory + "/queues")) queues += queue.starts_with("rx-") ? 1 : 0;
  nic.channels = std::max(queues, 1U);
  const std::string resource = roots_.sysfs + "/module/sfc_resource";
  nic.can_af_xdp = holds(kXdpDrivers, nic.driver) && exists(resource + "/afxdp/register");
  const bool has_driverlink = small_file(resource + "/parameters/enable_driverlink") != "0";
  // The module makes this directory for each NIC that it has taken.
  const bool taken = exists(roots_.proc + "/driver/sfc_resource/" + name);
  if (holds(kNativeDrivers, nic.driver) && has_driverlink) {
    nic.transport = onload::Transport::kNative;
    std::string enabled = small_file(directory + "/device/sfc_resource/enable");
    if (enabled.empty()) enabled = small_file(resource + "/parameters/enable_accel_by_default");
    nic.accelerated = exists(resource) && enabled != "0" && enabled != "N";
  } else {
    nic.accelerated = taken;
  }
  return nic;
}

}  // namespace podlane::dp
