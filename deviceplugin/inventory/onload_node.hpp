// What a node has of Onload, read from /sys, /proc, /dev and the library directories. Nothing is changed. A node
// without Onload is an answer, not an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/onload/environment.hpp"

namespace podlane::dp {

struct OnloadRoots {
  std::string sysfs = "/sys";
  std::string proc = "/proc";
  std::string host;  // The directory under which the host's /dev and /usr are seen; empty: /.
};

struct OnloadNic {
  std::string name;
  std::string driver;  // "sfc", "virtio_net"; empty: no device of its own.
  bool accelerated = false;
  onload::Transport transport = onload::Transport::kAfXdp;  // Of an accelerated one.
  bool can_af_xdp = false;                                  // Its driver has XDP, and Onload takes registrations.
  std::uint32_t channels = 1;                               // Receive queues. Over AF_XDP each stack needs one.
  friend bool operator==(const OnloadNic&, const OnloadNic&) = default;
};

struct OnloadNode {
  std::string why;                        // Why nothing can run with Onload; empty: something can.
  std::string version;                    // Of the module.
  std::string interface_version;          // What library and module must agree in.
  std::vector<std::string> device_nodes;  // As the host sees them: "/dev/onload".
  std::vector<std::string> libraries;     // Likewise; the first is the one to preload.
  std::vector<OnloadNic> nics;            // All, in the order of their names.
  std::vector<std::string> warnings;
  friend bool operator==(const OnloadNode&, const OnloadNode&) = default;
};

// Owned by one thread, which may block for some reads of small files; a library is read once per change of it.
class OnloadReader {
 public:
  explicit OnloadReader(OnloadRoots roots) : roots_(std::move(roots)) {}
  OnloadNode read();

 private:
  void read_module(OnloadNode& node) const;
  void read_device_nodes(OnloadNode& node) const;
  void read_libraries(OnloadNode& node);
  void read_nics(OnloadNode& node) const;
  OnloadNic read_nic(const std::string& name) const;
  bool is_of_the_same_build(const OnloadNode& node);

  OnloadRoots roots_;
  std::string checked_;  // Which library was compared with which module …
  bool same_ = false;    // … and how that came out.
};

}  // namespace podlane::dp
