// Nodes as directory trees: what /sys, /proc, /etc and /var of a machine of a given shape hold, as far as node
// configuration reads it; and how their kernel answers writes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nodeconfig/node.hpp"

namespace podlane::nodeconfig::test {

struct NicShape {
  std::string name = "ens1f0", pci = "0000:3b:00.0", driver = "ice";
  unsigned queues = 4;
  int numa_node = 0;
  std::string irq_prefix = "ice-ens1f0-TxRx-";
};

struct NodeShape {
  unsigned sockets = 1, cores = 4,
           threads = 1;  // Cores of a socket, threads of a core. CPU numbers as Linux gives them.
  std::vector<NicShape> nics = {NicShape{}};
  unsigned nvme_queues = 2;  // Managed interrupts: mode 0444.
  unsigned other_irqs = 0;
  bool clocks = true, idle_states = true;
  std::uint64_t free_kib = 8 << 20;  // Of each NUMA node.
};

// A directory that is removed at the end.
class Node {
 public:
  explicit Node(const NodeShape& shape = {});
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const std::string& root() const { return root_; }
  std::string run_dir() const { return root_ + "/run/podlane"; }
  void put(const std::string& path, const std::string& text, unsigned mode = 0644);  // A newline is added.
  std::string get(const std::string& path) const;                                    // Without it.
  bool has(const std::string& path) const;
  void remove(const std::string& path);
  void link(const std::string& path, const std::string& target);
  void run_process(unsigned pid, const std::string& name, const std::string& cmdline, unsigned start_ticks = 100);
  unsigned irq_of(const std::string& action) const;  // 0: none.
  std::string irq_path(const std::string& action) const { return "/proc/irq/" + std::to_string(irq_of(action)); }
  void add_irq(const std::string& action, const std::string& pci, unsigned mode = 0644);
  // Every file of the tree outside /run, with its content.
  std::map<std::string, std::string> contents() const;

  // What the kernel makes of a value: 0 or an errno; the value may be changed. By the end of the path.
  using Rule = std::function<int(std::string& value)>;
  std::map<std::string, Rule> rules;
  std::vector<std::string> writes;  // Paths, in order.
  std::function<void()> before_write, after_write;
  bool interrupts_fire = true;  // An interrupt moves at once.

  // The door, with this kernel behind it.
  Tree tree();

 private:
  Result<void> write(const std::string& path, std::string_view text);
  void build_cpus(const NodeShape& shape);
  void build_memory(const NodeShape& shape);
  void build_nic(const NicShape& nic);

  std::string root_;
  unsigned next_irq_ = 24, last_cpu_ = 0;
};

Profile profile_of(const std::string& json);                        // Throws with the parser's words.
const Change& change_of(const Plan& plan, const std::string& key);  // Throws when there is none.

}  // namespace podlane::nodeconfig::test
