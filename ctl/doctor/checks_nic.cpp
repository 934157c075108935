// Family D: NICs and their queues.
#include <algorithm>

#include "ctl/doctor/sight.hpp"

namespace podlane::doctor {

namespace {

std::string ethtool(const Nic& nic, const char* name) {
  return "/ethtool/" + nic.name + "/" + name;
}

std::string sysfs(const Nic& nic, const char* name) {
  return "/sys/class/net/" + nic.name + "/" + name;
}

Verdict judge_nic_number(const Sight& sight, const std::string& path, const std::string& what,
                         const std::function<bool(std::int64_t)>& good, const std::string& fix) {
  const auto value = sight.number(path);
  if (!value) return value.error();
  const std::string is = what + " is " + std::to_string(*value);
  return good(*value) ? pass(is) : bad(is, fix);
}

std::size_t queue_lanes(const Sight& sight, const Nic& nic) {
  const auto lanes = sight.lanes_on(nic.name);
  return static_cast<std::size_t>(
      std::count_if(lanes.begin(), lanes.end(), [](const Lane* lane) { return lane->kind == "queue"; }));
}

Verdict look_lro(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    return judge_nic_number(
        sight, ethtool(nic, "features/lro"), "lro of " + nic.name, [](auto value) { return value == 0; },
        "ethtool -K " + nic.name + " lro off");
  });
}

Verdict look_queue_count(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    const std::size_t lanes = queue_lanes(sight, nic);
    const auto queues = sight.number(ethtool(nic, "channels/combined"));
    if (!queues) return queues.error();
    const std::string is = nic.name + " has " + std::to_string(*queues) + " queues for " + std::to_string(lanes) +
                           " queue lanes and the node's own traffic";
    if (lanes == 0 || *queues > static_cast<std::int64_t>(lanes)) return pass(is);
    return bad(is, "ethtool -L " + nic.name + " combined " + std::to_string(lanes + 1) + ", while no lane is in use");
  });
}

Verdict look_single_queue(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    return judge_nic_number(
        sight, ethtool(nic, "channels/combined-max"), "the largest number of queues of " + nic.name,
        [](auto value) { return value > 1; },
        "more queues from the hypervisor (virtio: mq=on), or a larger instance; ethtool -l " + nic.name +
            " shows what there is");
  });
}

Verdict look_rss(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    if (queue_lanes(sight, nic) == 0) return not_applicable(nic.name + " has no queue lane");
    if (nic.rx_queues.size() < 2) return not_applicable(nic.name + " has one queue");
    const auto spread = sight.list(ethtool(nic, "rss/queues"));
    if (!spread) return spread.error();
    if (spread->empty()) return unknown("the RSS table of " + nic.name + " is empty");
    CpuSet of_lanes;
    for (const Lane* lane : sight.lanes_on(nic.name)) {
      if (lane->kind == "queue" && lane->queue >= 0) of_lanes.add(static_cast<unsigned>(lane->queue));
    }
    const CpuSet both = *spread & of_lanes;
    if (both.empty()) return pass("other traffic of " + nic.name + " is spread over queues " + spread->list());
    return bad("other traffic of " + nic.name + " is spread into lanes' queues " + both.list(),
               "ethtool -X " + nic.name + " equal <number of the node's own queues>");
  });
}

Verdict look_steering(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    if (queue_lanes(sight, nic) == 0) return not_applicable(nic.name + " has no queue lane");
    if (nic.rx_queues.size() < 2) return pass(nic.name + " has one queue: every packet comes to it");
    return judge_nic_number(
        sight, ethtool(nic, "features/ntuple"), "ntuple of " + nic.name, [](auto value) { return value == 1; },
        "ethtool -K " + nic.name + " ntuple on");
  });
}

Verdict look_coalescing(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    const auto usecs = sight.number(ethtool(nic, "coalesce/rx-usecs"));
    if (!usecs) return usecs.error();
    const std::string is = "rx-usecs of " + nic.name + " is " + std::to_string(*usecs);
    const auto lanes = sight.lanes_on(nic.name);
    const bool all_spin = !lanes.empty() && std::all_of(lanes.begin(), lanes.end(),
                                                        [](const Lane* lane) { return lane->mode == "spinning"; });
    if (*usecs <= 1 || all_spin) return pass(is + (all_spin ? ", and all its lanes spin" : ""));
    return bad(is, "ethtool -C " + nic.name + " rx-usecs 0").with_effect(static_cast<double>(*usecs), true);
  });
}

Verdict look_adaptive(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    std::vector<Verdict> both;
    for (const char* way : {"rx", "tx"}) {
      const std::string name = std::string("coalesce/adaptive-") + way;
      both.push_back(judge_nic_number(
          sight, ethtool(nic, name.c_str()), std::string("adaptive-") + way + " of " + nic.name,
          [](auto value) { return value == 0; }, "ethtool -C " + nic.name + " adaptive-" + way + " off"));
    }
    return worst_of(std::move(both), not_applicable("none"));
  });
}

Verdict look_ring(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    return judge_nic_number(
        sight, ethtool(nic, "rings/rx"), "receive ring of " + nic.name,
        [](auto value) { return value >= 256 && value <= 2048; },
        "ethtool -G " + nic.name + " rx 1024, while nothing is in a hurry");
  });
}

Verdict look_drops(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    std::string counted;
    for (const char* name : {"rx_missed_errors", "rx_fifo_errors"}) {
      const auto value = sight.number(sysfs(nic, (std::string("statistics/") + name).c_str()));
      if (!value && value.error().outcome == Outcome::kUnknown) return value.error();
      if (value && *value > 0) counted += " " + std::string(name) + " " + std::to_string(*value);
    }
    if (counted.empty()) return pass(nic.name + " dropped nothing for want of buffers");
    return warn(nic.name + " counted since boot" + counted,
                "ethtool -S " + nic.name + " names the queue; ethtool -g, then ethtool -G " + nic.name + " rx <more>");
  });
}

Verdict look_deferral(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    const auto defer = sight.number(sysfs(nic, "napi_defer_hard_irqs"));
    const auto timeout = sight.number(sysfs(nic, "gro_flush_timeout"));
    if (!defer) return defer.error();
    if (!timeout) return timeout.error();
    const std::string is = nic.name + ": napi_defer_hard_irqs " + std::to_string(*defer) + ", gro_flush_timeout " +
                           std::to_string(*timeout) + " ns";
    if (*defer == 0) return pass(is);
    const auto lanes = sight.lanes_on(nic.name);
    if (std::any_of(lanes.begin(), lanes.end(), [](const Lane* lane) { return lane->in_force && lane->busy_poll; })) {
      return pass(is + ", and a lane polls it");
    }
    return bad(is + ", and no lane polls it",
               "echo 0 > " + sysfs(nic, "napi_defer_hard_irqs") + "; echo 0 > " + sysfs(nic, "gro_flush_timeout"))
        .with_effect(static_cast<double>(*timeout) / 1000, true);
  });
}

Verdict look_threaded(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    return judge_nic_number(
        sight, sysfs(nic, "threaded"), "threaded of " + nic.name, [](auto value) { return value == 0; },
        "echo 0 > " + sysfs(nic, "threaded") + ", or taskset -cp <cpu> <pid of napi/" + nic.name + "-*>");
  });
}

Verdict look_pause(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    std::vector<Verdict> both;
    for (const char* name : {"pause/rx", "pause/tx"}) {
      both.push_back(judge_nic_number(
          sight, ethtool(nic, name), std::string(name) + " of " + nic.name, [](auto value) { return value == 0; },
          "ethtool -A " + nic.name + " rx off tx off"));
    }
    return worst_of(std::move(both), not_applicable("none"));
  });
}

Verdict look_link(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    const auto state = chosen_word(sight, sysfs(nic, "operstate"));
    if (!state) return state.error();
    const auto duplex = chosen_word(sight, sysfs(nic, "duplex"));
    if (*state == "down" || *state == "lowerlayerdown") {
      return bad("the link of " + nic.name + " is down", "ip link set " + nic.name + " up; ethtool " + nic.name)
          .as(sight.lanes_on(nic.name).empty() ? Severity::kInfo : Severity::kCrit);
    }
    if (*state != "up" && *state != "unknown") return unknown("operstate of " + nic.name + " is a word we do not know");
    if (duplex && *duplex == "half") return bad(nic.name + " runs at half duplex", "ethtool " + nic.name);
    const auto changes = sight.number(sysfs(nic, "carrier_changes"));
    if (changes && *changes > 10) {
      return warn("the link of " + nic.name + " went down or up " + std::to_string(*changes) + " times since boot");
    }
    return pass("the link of " + nic.name + " is " + *state);
  });
}

Verdict look_pcie(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    if (nic.pci.empty()) return not_applicable(nic.name + " is no PCI device");
    const std::string root = "/sys/bus/pci/devices/" + nic.pci + "/";
    const auto width = sight.number(root + "current_link_width"), widest = sight.number(root + "max_link_width");
    if (!width) return width.error();
    if (!widest) return widest.error();
    if (*width == 0 || *widest == 0 || *widest == 255)
      return not_applicable(nic.name + " has no PCIe link (a virtual device)");
    const auto speed = sight.text(root + "current_link_speed"), fastest = sight.text(root + "max_link_speed");
    std::string is = nic.name + " runs at x" + std::to_string(*width) + " of x" + std::to_string(*widest);
    const std::string fix = "another slot, or bifurcation in the BIOS; lspci -vv -s " + nic.pci + " shows LnkSta";
    if (*width < *widest) return bad(is, fix);
    if (!speed || !fastest || words_of(*speed).empty() || words_of(*fastest).empty()) return pass(is);
    is += ", " + std::string(words_of(*speed)[0]) + " of " + std::string(words_of(*fastest)[0]) + " GT/s";
    return *speed == *fastest ? pass(is) : bad(is, fix);
  });
}

Verdict look_firmware(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    if (nic.driver != "sfc") return not_applicable("the firmware of " + nic.name + " has no variants");
    if (nic.firmware.empty()) return unknown("the firmware version of " + nic.name + " cannot be read");
    if (nic.firmware.find("rx1 tx1") != std::string::npos) return pass(nic.name + " has " + nic.firmware);
    return bad(nic.name + " has " + nic.firmware,
               "sfboot --adapter=" + nic.name + " firmware-variant=ultra-low-latency, then reboot");
  });
}

Verdict look_master(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    if (!sight.text(sysfs(nic, "master"))) return pass(nic.name + " belongs to no bond and no bridge");
    return bad(nic.name + " is a member of a bond or a bridge");
  });
}

Verdict look_mtu(const Sight& sight) {
  return of_each_nic(sight, [&](const Nic& nic) {
    return judge_nic_number(
        sight, sysfs(nic, "mtu"), "mtu of " + nic.name, [](auto value) { return value >= 68 && value <= 3498; },
        "ip link set " + nic.name + " mtu 1500");
  });
}

constexpr Check kChecks[] = {
    {"D03", "no LRO", Severity::kHigh, 20, "ethtool -k <if>", "lro off",
     "Drivers refuse native XDP while the NIC merges packets.", "ethtool -K <if> lro off", look_lro},
    {"D04", "queues for all lanes", Severity::kHigh, 10, "ethtool -l <if>, lanes.json", "one more than queue lanes",
     "Without a queue of its own the node's traffic comes through a lane's.", "ethtool -L <if> combined <n>",
     look_queue_count},
    {"D05", "more than one queue", Severity::kMed, 5, "ethtool -l <if>", "combined maximum above 1",
     "A lane on the only queue shares it with everything else on this card.", "ethtool -l <if> shows what there is",
     look_single_queue},
    {"D06", "RSS leaves lanes' queues out", Severity::kHigh, 10, "ethtool -x <if>, lanes.json", "no lane's queue",
     "Traffic of others is spread into the queue of a lane.", "ethtool -X <if> equal <n>", look_rss},
    {"D07", "packets are steered to lanes' queues", Severity::kCrit, 0, "ethtool -k <if>, queues",
     "one queue, or ntuple on (also V21)", "Packets for a lane that arrive on another queue are dropped.",
     "ethtool -K <if> ntuple on; ethtool -n <if> shows the rules", look_steering},
    {"D08", "no interrupt coalescing", Severity::kHigh, 50, "ethtool -c <if>",
     "rx-usecs at most 1, unless all lanes spin", "The NIC holds its interrupt back this long to collect packets.",
     "ethtool -C <if> rx-usecs 0", look_coalescing},
    {"D09", "no adaptive coalescing", Severity::kMed, 20, "ethtool -c <if>", "adaptive-rx and adaptive-tx off",
     "The driver changes the delay with the load, so latency changes with it.",
     "ethtool -C <if> adaptive-rx off adaptive-tx off", look_adaptive},
    {"D10", "ring size", Severity::kLow, 1, "ethtool -g <if>", "256 to 2048",
     "Packets sit long in a deep ring and fall out of the cache; a tiny one overflows.", "ethtool -G <if> rx 1024",
     look_ring},
    {"D11", "NIC drops nothing", Severity::kHigh, 200, "/sys/class/net/<if>/statistics/rx_{missed,fifo}_errors", "0",
     "Packets came and there was no free buffer for them.", "ethtool -S <if>; ethtool -G <if> rx <more>", look_drops},
    {"D13", "no deferral without a poller", Severity::kHigh, 200, "napi_defer_hard_irqs, gro_flush_timeout of <if>",
     "0, or a lane busy-polls (also V29)", "Interrupts wait for somebody who polls, and nobody does.",
     "echo 0 > /sys/class/net/<if>/napi_defer_hard_irqs", look_deferral},
    {"D14", "no threaded NAPI", Severity::kMed, 10, "/sys/class/net/<if>/threaded", "0 (also V31)",
     "One more thread must wake up for each packet, on one more core.", "echo 0 > /sys/class/net/<if>/threaded",
     look_threaded},
    {"D15", "no flow control", Severity::kMed, 100, "ethtool -a <if>", "off",
     "The switch may tell the NIC to stop sending.", "ethtool -A <if> rx off tx off", look_pause},
    {"D16", "link is up and steady", Severity::kMed, 0, "operstate, duplex, carrier_changes of <if>",
     "up, full, few changes (also V21)", "A link that is down or comes and goes carries no lane.", "ethtool <if>",
     look_link},
    {"D17", "PCIe link at full width", Severity::kHigh, 1, "current and max link width and speed of <bdf>", "equal",
     "The card sits in a slot that is narrower or slower than itself.", "lspci -vv -s <bdf> shows LnkSta", look_pcie},
    {"D19", "low-latency firmware (sfc)", Severity::kHigh, 1, "ethtool -i <if>", "variant rx1 tx1 (also V30)",
     "The full-feature firmware takes longer for each packet.",
     "sfboot --adapter=<if> firmware-variant=ultra-low-latency", look_firmware},
    {"D21", "NIC belongs to no bond or bridge", Severity::kHigh, 0, "/sys/class/net/<if>/master", "none",
     "XDP on a member is not where the bond's traffic is addressed to.", "ip link set <if> nomaster, or an SR-IOV VF",
     look_master},
    {"D24", "MTU within native XDP", Severity::kHigh, 20, "/sys/class/net/<if>/mtu", "at most 3498 (also V21)",
     "Most drivers attach XDP natively only while a frame fits one page.", "ip link set <if> mtu 1500", look_mtu},
};

}  // namespace

std::span<const Check> nic_checks() {
  return kChecks;
}

}  // namespace podlane::doctor
