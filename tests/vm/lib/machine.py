"""The QEMU command line of a scenario, and its run."""
import os
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path

from lib import guest, judge
from lib.scenario import Problem

QEMU = "qemu-system-x86_64"
BOOTS = 3  # See lost_a_patch.
STOP = threading.Event()  # Set when the run is told to end: guests are killed, no other one is booted.


def memory(wanted):
    if not wanted.numa:
        return ["-m", f"{wanted.memoryMiB}M"]
    words = ["-m", f"{sum(node['memoryMiB'] for node in wanted.numa)}M"]
    for at, node in enumerate(wanted.numa):
        words += ["-object", f"memory-backend-ram,id=memory{at},size={node['memoryMiB']}M",
                  "-numa", f"node,nodeid={at},cpus={node['cpus']},memdev=memory{at}"]
    for a in range(len(wanted.numa)):
        for b in range(a + 1, len(wanted.numa)):
            words += ["-numa", f"dist,src={a},dst={b},val=21"]
    return words


def buses(wanted):
    """One root port a device behind a node: only an expander bridge gives a device a NUMA node."""
    words, ports = [], {}
    used = sorted({device["node"] for device in wanted.nics + wanted.nvme if "node" in device})
    for node in used:
        words += ["-device", f"pxb-pcie,id=node{node},bus=pcie.0,bus_nr={64 * (node + 1)},numa_node={node}"]
    for at, device in enumerate(wanted.nics + wanted.nvme):
        if "node" in device:
            words += ["-device", f"pcie-root-port,id=port{at},bus=node{device['node']},chassis={at + 1},slot={at + 1}"]
            ports[at] = f",bus=port{at}"
    return words, ports


def wires(wanted):
    return sorted({nic["wire"] for nic in wanted.nics if "wire" in nic})


def wants_taps(wanted, nic):
    """Only a tap gives a NIC several queues; a wire with such a NIC is a bridge, every other one a hub in QEMU."""
    return any(other.get("queues", 1) > 1 for other in wanted.nics
               if other is nic or ("wire" in nic and other.get("wire") == nic["wire"]))


def nics(wanted, ports):
    words = []
    for at, nic in enumerate(wanted.nics):
        model, queues = nic.get("model", "virtio-net-pci"), nic.get("queues", 1)
        if wants_taps(wanted, nic):
            words += ["-netdev", f"tap,id=net{at},ifname=tap{at},script=no,downscript=no,queues={queues}"]
        else:
            hub = wires(wanted).index(nic["wire"]) if "wire" in nic else 100 + at
            words += ["-netdev", f"hubport,id=net{at},hubid={hub}"]
        device = f"{model},netdev=net{at},mac={guest.mac(at)},romfile=" + ports.get(at, ",bus=pcie.0")
        if queues > 1:
            device += f",mq=on,vectors={2 * queues + 2}"
        words += ["-device", device + ("," + nic["options"] if "options" in nic else "")]
    return words


def taps(wanted):
    """Commands that make the taps and bridges, in the network namespace that QEMU gets for itself."""
    lines = []
    for wire in wires(wanted):
        if any(wants_taps(wanted, nic) for nic in wanted.nics if nic.get("wire") == wire):
            bridge = f"wire{wires(wanted).index(wire)}"
            lines += [f"ip link add {bridge} type bridge mcast_snooping 0", f"ip link set {bridge} up"]
    for at, nic in enumerate(wanted.nics):
        if wants_taps(wanted, nic):
            queues = " multi_queue" if nic.get("queues", 1) > 1 else ""
            lines += [f"ip tuntap add tap{at} mode tap{queues}", f"ip link set tap{at} up"]
            if "wire" in nic:
                lines += [f"ip link set tap{at} master wire{wires(wanted).index(nic['wire'])}"]
    return lines


def command_line(wanted, kernel, initramfs, logs):
    cpus = wanted.cpus
    count = cpus["sockets"] * cpus["cores"] * cpus["threads"]
    bus_words, ports = buses(wanted)
    words = [QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none",
             *([] if any("reboot" in step for step in wanted.steps) else ["-no-reboot"]), "-machine", "q35", "-cpu", "Nehalem", "-accel", "tcg,thread=multi",
             "-smp", f"{count},sockets={cpus['sockets']},cores={cpus['cores']},threads={cpus['threads']}",
             *memory(wanted), "-kernel", str(kernel.image), "-initrd", str(initramfs),
             "-serial", f"file:{logs / 'console.log'}", "-serial", f"file:{logs / 'results.jsonl'}",
             "-append", f"console=ttyS0 loglevel=5 panic=-1 mitigations=off nowatchdog tsc=reliable "
                        f"rcupdate.rcu_cpu_stall_suppress=1 {wanted.boot}".strip(),
             *bus_words, *nics(wanted, ports)]
    for at, disk in enumerate(wanted.nvme):
        image = logs / f"nvme{at}"
        with open(image, "wb") as file:
            file.truncate(disk["sizeMiB"] << 20)
        if "mount" in disk:
            subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
        words += ["-drive", f"file={image},format=raw,if=none,id=disk{at}",
                  "-device", f"nvme,drive=disk{at},serial=disk{at}{ports.get(len(wanted.nics) + at, ',bus=pcie.0')}"]
    return words


def lost_a_patch(logs):
    """QEMU's virtual CPUs are threads, and one may run what another has just patched half (an int3 that the kernel's
    text_poke_bp puts there for a moment). The kernel then dies with this oops, which nothing else gives. One thread for all
    CPUs has no such race and is too slow for the suites' deadlines; a guest of one CPU has none either, and is not."""
    console = logs / "console.log"
    return console.exists() and "Oops: int3" in console.read_text(errors="replace")


def run(wanted, kernel, initramfs, logs, say):
    """Runs the guest to its end. Returns what went wrong with the machine itself, or nothing."""
    for _ in range(BOOTS - 1):
        problem = run_once(wanted, kernel, initramfs, logs, say)
        if STOP.is_set() or not lost_a_patch(logs):
            return problem
        say("QEMU lost a patch of the kernel's code (Oops: int3); booting again")
        (logs / "results.jsonl").unlink(missing_ok=True)
    return run_once(wanted, kernel, initramfs, logs, say)


def run_once(wanted, kernel, initramfs, logs, say):
    words = command_line(wanted, kernel, initramfs, logs)
    script = "\n".join(["set -e", *taps(wanted), "exec " + " ".join(map(shlex.quote, words))])
    (logs / "qemu.sh").write_text(script + "\n")
    results = logs / "results.jsonl"
    with open(logs / "qemu.log", "wb") as log:
        # A network namespace of its own: taps and bridges are seen by nobody and go with it. QEMU ends with this process.
        child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "bash", "-c", script],
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    deadline, shown = time.monotonic() + wanted.timeoutSeconds, 0
    try:
        while child.poll() is None and time.monotonic() < deadline and not STOP.wait(0.2):
            shown = show(results, shown, say)
        late = child.poll() is None
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    show(results, shown, say)
    if STOP.is_set():
        return "told to stop; the guest was ended"
    if late:
        return f"the guest was ended after {wanted.timeoutSeconds} s; it had not come to its end"
    if child.returncode != 0:
        return f"QEMU ended with status {child.returncode}: {Path(logs / 'qemu.log').read_text(errors='replace')[-1000:]}"
    return None


def show(results, shown, say):
    """Tells of the lines that have been completed since."""
    if not results.exists():
        return shown
    data = results.read_bytes()
    for line in data[shown:data.rfind(b"\n") + 1].splitlines():
        words = judge.step_line(line.decode(errors="replace"))
        if words:
            say(words)
    return max(shown, data.rfind(b"\n") + 1)
