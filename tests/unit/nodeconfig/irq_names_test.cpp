#include "nodeconfig/irq_names.hpp"

#include <gtest/gtest.h>

namespace podlane::nodeconfig {
namespace {

// The forms that drivers use, as seen in /proc/interrupts.
TEST(IrqNames, OfDrivers) {
  struct Row {
    const char *action, *ifname, *identity, *role;
    unsigned first, last;
  };
  for (const Row& row : {
           Row{"virtio0-config", "eth0", "virtio0-config", "", 0, 0},
           Row{"virtio0-input.0", "eth0", "rx-0", "rx", 0, 0},
           Row{"virtio0-output.12", "eth0", "tx-12", "tx", 12, 12},
           Row{"virtio1-req.0", "", "queue-0", "queue", 0, 0},
           Row{"eth2-rx-0", "eth2", "rx-0", "rx", 0, 0},
           Row{"eth2-tx-1", "eth2", "tx-1", "tx", 1, 1},
           Row{"eth2", "eth2", "if", "", 0, 0},
           Row{"eth3-TxRx-7", "eth3", "queue-7", "queue", 7, 7},
           Row{"eth4-rxtx-0", "eth4", "queue-0", "queue", 0, 0},
           Row{"eth4-event-5", "eth4", "if-event-5", "", 0, 0},
           Row{"nvme0q0", "", "nvme0q0", "", 0, 0},
           Row{"nvme0q1", "", "nvme0q1", "", 0, 0},
           Row{"ens1f0-TxRx-0", "ens1f0", "queue-0", "queue", 0, 0},
           Row{"i40e-ens1f0-TxRx-3", "ens1f0", "queue-3", "queue", 3, 3},
           Row{"i40e-0000:3b:00.0:misc", "ens1f0", "i40e-0000:3b:00.0:misc", "", 0, 0},
           Row{"ice-ens1f0-TxRx-126", "ens1f0", "queue-126", "queue", 126, 126},
           Row{"ice-ens2f1-TxRx-0-1", "ens2f1", "queue-0-1", "queue", 0, 1},
           Row{"mlx5_comp0@pci:0000:3b:00.0", "ens2", "queue-0", "queue", 0, 0},
           Row{"mlx5_async0@pci:0000:3b:00.0", "ens2", "mlx5_async0", "", 0, 0},
           Row{"ena-mgmnt@pci:0000:27:00.0", "ens5", "ena-mgmnt", "", 0, 0},
           Row{"enp39s0-Tx-Rx-0", "enp39s0", "queue-0", "queue", 0, 0},
           Row{"gve-ntfy-blk0@pci:0000:00:04.0", "ens4", "gve-ntfy-blk0", "", 0, 0},
           Row{"eno1-TxRx-0", "eno1", "queue-0", "queue", 0, 0},
           Row{"eth2-0", "eth2", "queue-0", "queue", 0, 0},
           Row{"matrix-0", "eth2", "matrix-0", "", 0, 0},
           Row{"a/b c", "", "a_b_c", "", 0, 0},
           Row{"", "", "unnamed", "", 0, 0},
           Row{"x-TxRx-99999999999999999999", "x", "if-TxRx-99999999999999999999", "", 0, 0},
       }) {
    const IrqName name = parse_irq_name(row.action, row.ifname);
    EXPECT_EQ(name.identity, row.identity) << row.action;
    EXPECT_EQ(name.role, row.role) << row.action;
    EXPECT_EQ(name.first, row.first) << row.action;
    EXPECT_EQ(name.last, row.last) << row.action;
  }
}

}  // namespace
}  // namespace podlane::nodeconfig
