// A node with Onload as a tree below a scratch directory, built from the recorded one (recorded.txt: what a real node
// over AF_XDP showed), with what a recording cannot hold made here: device nodes, libraries, the NIC's links. Tests
// only.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "deviceplugin/inventory/onload_node.hpp"

namespace podlane::test {

class OnloadTree {
 public:
  explicit OnloadTree(std::string root) : root_(std::move(root)) {
    std::ifstream recorded(std::string(std::getenv("PODLANE_SOURCE")) +
                           "/tests/unit/inventory/onload_node/recorded.txt");
    for (std::string line; std::getline(recorded, line);) {
      const std::size_t equals = line.find('=');
      if (line.starts_with("/sys/") && equals != line.npos)
        write(line.substr(0, equals), line.substr(equals + 1) + "\n");
      if (line.starts_with("crw") && line.find(" /dev/") != line.npos) make_node(line.substr(line.find(" /dev/") + 1));
      if (line.starts_with("  onload_") || line.starts_with("  uk_intf_ver: ")) version_ += line.substr(2) + "\n";
    }
    write("/proc/driver/onload/version", version_);
    write("/proc/driver/sfc_resource/eth0/firewall_rules", "");
    add_nic("eth0", "virtio_net", 1);
    add_nic("lo", "", 1);
    write("/usr/lib64/libonload.so", "…94e6b7eccf68029c8c29f301197d3e9a…");
    write("/usr/lib64/libonload_ext.so", "");
  }
  ~OnloadTree() { std::filesystem::remove_all(root_); }
  OnloadTree(const OnloadTree&) = delete;
  OnloadTree& operator=(const OnloadTree&) = delete;

  dp::OnloadRoots roots() const { return {.sysfs = root_ + "/sys", .proc = root_ + "/proc", .host = root_}; }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void remove(const std::string& path) { std::filesystem::remove_all(root_ + path); }
  void add_nic(const std::string& name, const std::string& driver, int queues) {
    const std::string directory = root_ + "/sys/class/net/" + name;
    for (int queue = 0; queue < queues; ++queue) {
      std::filesystem::create_directories(directory + "/queues/rx-" + std::to_string(queue));
    }
    if (driver.empty()) return;
    std::filesystem::create_directories(directory + "/device");
    std::filesystem::create_symlink("../../../../bus/drivers/" + driver, directory + "/device/driver");
  }
  // False where this process may make no device nodes.
  bool has_nodes() const { return nodes_; }
  void set_mode(const std::string& path, mode_t mode) { (void)::chmod((root_ + path).c_str(), mode); }

 private:
  void make_node(const std::string& path) {
    std::filesystem::create_directories(root_ + "/dev");
    const std::string node = root_ + path;
    nodes_ = ::mknod(node.c_str(), S_IFCHR | 0666, ::makedev(1, 3)) == 0 && ::chmod(node.c_str(), 0666) == 0 && nodes_;
  }

  const std::string root_;
  std::string version_;
  bool nodes_ = true;
};

}  // namespace podlane::test
