"""Reads a scenario file. What it may hold is the tables here; anything else is refused by name."""
import json
import re
from dataclasses import dataclass, field


class Problem(Exception):
    """Something a reader can act on: it names the file, the key, and what would be right."""


# key -> (type, what would be right)
TOP = {
    "about": (str, "one sentence: what this scenario proves"),
    "kernel": (dict, 'an object with "suite" and "version" or "atLeast"'),
    "cpus": (dict, 'an object with "sockets", "cores", "threads"'),
    "numa": (list, 'a list of objects with "cpus" and "memoryMiB"'),
    "memoryMiB": (int, "a number of MiB"),
    "timeoutSeconds": (int, "a number of seconds for the whole scenario"),
    "nics": (list, 'a list of objects with "name"'),
    "nvme": (list, 'a list of objects with "sizeMiB"'),
    "modules": (list, "a list of kernel modules, loaded in this order with what they depend on"),
    "programs": (list, "a list of programs and sets of lib/guest.py: ip, /a/path, build:podlane, source:scripts/lib, image:relay, +node"),
    "boot": (str, "kernel arguments"),
    "steps": (list, 'a list of objects with "name" and "suite" or "run"'),
}
NIC = {
    "name": (str, "the interface's name in the guest"),
    "model": (str, "a QEMU device: virtio-net-pci, igb, e1000e, vmxnet3"),
    "queues": (int, "a number of queue pairs, virtio-net-pci only"),
    "node": (int, "the NUMA node it is attached to"),
    "wire": (str, "a name; NICs of one wire reach each other"),
    "netns": (str, "the guest's network namespace that it is put into"),
    "options": (str, "further options of the QEMU device"),
}
DISK = {
    "sizeMiB": (int, "its size"),
    "node": (int, "the NUMA node it is attached to"),
    "mount": (str, "where the guest mounts it; an ext4 file system is on it then, and outlives a reboot"),
}
CPUS = {
    "sockets": (int, "a number"),
    "cores": (int, "a number of each socket"),
    "threads": (int, "a number of each core"),
}
NODE = {
    "cpus": (str, "CPUs as QEMU takes them: 0-1"),
    "memoryMiB": (int, "a number of MiB"),
}
STEP = {
    "name": (str, "a short name"),
    "reboot": (bool, "true: the guest is reset here, as by its button, and the steps after it run in the next boot"),
    "suite": (str, "a test program of the build"),
    "filter": (str, "its --gtest_filter"),
    "run": (str, "a command of the guest's bash; scripts of tests/vm/steps are in /vm/steps"),
    "timeoutSeconds": (int, "a number of seconds"),
    "differs": (dict, "test name -> what it recorded as different on this kernel"),
    "expect": (dict, 'an object with "status", "words", "json"'),
}
EXPECT = {
    "status": (int, "the exit status"),
    "words": (list, "a list of words that the output must hold"),
    "json": (dict, "what the last line of the output must hold"),
}


@dataclass
class Scenario:
    name: str
    about: str
    kernel: dict
    cpus: dict = field(default_factory=lambda: {"sockets": 1, "cores": 2, "threads": 1})
    numa: list = field(default_factory=list)
    memoryMiB: int = 2048
    timeoutSeconds: int = 900
    nics: list = field(default_factory=list)
    nvme: list = field(default_factory=list)
    modules: list = field(default_factory=list)
    programs: list = field(default_factory=list)
    boot: str = ""
    steps: list = field(default_factory=list)


def check_keys(where, value, table, required=()):
    if not isinstance(value, dict):
        raise Problem(f"{where} {json.dumps(value)} must be an object")
    for key, one in value.items():
        if key not in table:
            raise Problem(f"{where}: unknown key '{key}'; known: {', '.join(table)}")
        kind, right = table[key]
        if not isinstance(one, kind) or isinstance(one, bool) != (kind is bool):
            raise Problem(f"{where}.{key} {json.dumps(one)} must be {right}")
    for key in required:
        if key not in value:
            raise Problem(f"{where}: '{key}' is missing: {table[key][1]}")


def read(path):
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        others = ", ".join(sorted(other.stem for other in path.parent.glob("*.json")))
        raise Problem(f"no scenario '{path.stem}'; there are {others}") from None
    except json.JSONDecodeError as error:
        raise Problem(f"{path.name}: {error}") from None
    where = path.stem
    check_keys(where, value, TOP, ("about", "kernel", "steps"))
    check_keys(f"{where}.kernel", value["kernel"],
               {"suite": (str, "a suite of Debian"), "version": (str, "what the release begins with: 6.1"),
                "atLeast": (str, "the lowest release: 6.13")}, ("suite",))
    check_keys(f"{where}.cpus", value.get("cpus", {"sockets": 1, "cores": 1, "threads": 1}), CPUS, CPUS)
    for at, node in enumerate(value.get("numa", [])):
        check_keys(f"{where}.numa[{at}]", node, NODE, NODE)
    for at, nic in enumerate(value.get("nics", [])):
        check_keys(f"{where}.nics[{at}]", nic, NIC, ("name",))
        if nic.get("queues", 1) > 1 and nic.get("model", "virtio-net-pci") != "virtio-net-pci":
            raise Problem(f"{where}.nics[{at}].queues is for virtio-net-pci; {nic['model']} has its own number")
        if nic.get("node", 0) >= max(1, len(value.get("numa", []))):
            raise Problem(f"{where}.nics[{at}].node {nic['node']} must be one of the nodes in 'numa'")
    for at, disk in enumerate(value.get("nvme", [])):
        check_keys(f"{where}.nvme[{at}]", disk, DISK, ("sizeMiB",))
    names = set()
    for at, step in enumerate(value["steps"]):
        check_keys(f"{where}.steps[{at}]", step, STEP, ("name",))
        check_keys(f"{where}.steps[{at}].expect", step.get("expect", {}), EXPECT)
        if sum(key in step for key in ("suite", "run", "reboot")) != 1:
            raise Problem(f"{where}.steps[{at}] must have one of 'suite', 'run' and 'reboot'")
        if "reboot" in step and not any("mount" in disk for disk in value.get("nvme", [])):
            raise Problem(f"{where}.steps[{at}].reboot needs an 'nvme' with 'mount', which says how far the guest came")
        if not re.fullmatch(r"[a-z0-9-]+", step["name"]) or step["name"] in names:
            raise Problem(f"{where}.steps[{at}].name '{step['name']}' must be lower case, digits and '-', each once")
        names.add(step["name"])
    return Scenario(name=where, **value)


def only(wanted, names):
    known = [step["name"] for step in wanted.steps]
    for name in names:
        if name not in known:
            raise Problem(f"{wanted.name} has no step '{name}'; it has {', '.join(known)}")
    return [step for step in wanted.steps if step["name"] in names]
