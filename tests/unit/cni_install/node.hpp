// A node's directories in a temporary place, with a device plugin's socket that can be there or not.
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cni/install/conflist.hpp"
#include "cni/install/installer.hpp"
#include "lib/base/file.hpp"
#include "lib/base/seqpacket.hpp"

namespace podlane::test {

namespace fs = std::filesystem;

class Node {
 public:
  Node() {
    char name[] = "/tmp/podlane-node.XXXXXX";
    root_ = ::mkdtemp(name);
    for (const char* directory : {"bin", "conf", "cache", "run", "image"})
      fs::create_directories(root_ + "/" + directory);
    write("image/podlane", "the program");
    start_device_plugin();
  }
  ~Node() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  std::string at(const std::string& name) const { return root_ + "/" + name; }
  void write(const std::string& name, std::string_view text) const { std::ofstream(at(name)) << text; }
  // As a network's own installer does it.
  void rename_in(const std::string& name, std::string_view text) const {
    write(name + ".tmp", text);
    fs::rename(at(name + ".tmp"), at(name));
  }
  std::string read(const std::string& name) const { return read_file(at(name)).value_or("(not there)"); }
  bool has(const std::string& name) const { return fs::exists(at(name)); }

  void start_device_plugin() { socket_ = std::move(*seqpacket_listen(at("run/control.sock"), 0600)); }
  void stop_device_plugin() {
    socket_.reset();
    fs::remove(at("run/control.sock"));
  }

  cni::InstallOptions options(cni::Method method = cni::Method::kEdit) const {
    return {.source = at("image/podlane"),
            .bin_dir = at("bin"),
            .conf_dir = at("conf"),
            .cache_dir = at("cache"),
            .run_dir = at("run"),
            .entry = *cni::make_entry("{}"),
            .method = method};
  }

 private:
  std::string root_;
  UniqueFd socket_;
};

}  // namespace podlane::test
