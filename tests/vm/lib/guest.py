"""The guest's root: an initramfs with busybox, this machine's programs with their libraries, and our test programs.

Files have the paths that they have here, because test programs know some by absolute path.
"""
import os
import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

from lib import kernel as kernels
from lib.scenario import Problem

HERE = Path(__file__).resolve().parents[1]
# What init and most tests run. Of what starts other programs not busybox's own: it would start its own programs.
BASE = ["busybox", "bash", "ip", "ethtool", "jq", "ping", "nsenter", "unshare", "setpriv", "sysctl", "env", "find", "setsid",
        "timeout", "xargs"]
# Named in a scenario's "programs" with a plus.
SETS = {
    "+suites": ["strace", "bpftool", "test", "/usr/lib/cni/host-local", "source:tests/kernel"],
    "+node": ["source:scripts/lib", "source:manifests", "/usr/lib/cni/ptp", "/usr/lib/cni/host-local", "install", "ss",
              *(f"build:{name}" for name in ("podlane", "podlane-deviceplugin", "podlane-relay", "podlanectl", "test-kubelet",
                                             "bench_rtt", "bench_flood"))],
    "+containerd": ["containerd", "containerd-shim-runc-v2", "runc", "ctr", "/usr/lib/cni/loopback", "build:reflect.bpf.o",
                    "image:pause", "image:relay", "image:examples", "source:tests/system"],
}


class Cpio:
    """Writes an archive in the newc format (Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self, file):
        self.file = file
        self.inode = 0
        self.there = set()

    def entry(self, path, mode, data=b"", device=(0, 0)):
        path = path.strip("/")
        if path in self.there:
            return
        if "/" in path:
            self.directory(path.rsplit("/", 1)[0])
        self.there.add(path)
        self.write(path, mode, data, device)

    def write(self, path, mode, data, device):
        self.inode += 1
        name = path.encode() + b"\0"
        fields = [self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0]
        head = b"070701" + b"".join(b"%08x" % number for number in fields) + name
        self.file.write(head + b"\0" * (-len(head) % 4))
        self.file.write(data)
        self.file.write(b"\0" * (-len(data) % 4))

    def directory(self, path, permissions=0o755):
        self.entry(path, stat.S_IFDIR | permissions)

    def link(self, path, target):
        self.entry(path, stat.S_IFLNK | 0o777, target.encode())

    def data(self, path, data, permissions=0o644):
        self.entry(path, stat.S_IFREG | permissions, data)

    def end(self):
        self.write("TRAILER!!!", 0, b"", (0, 0))


def usr_path(path):
    """/lib, /bin and the like are links into /usr, here and in the guest."""
    return re.sub(r"^/(bin|sbin|lib|lib64)/", r"/usr/\1/", str(path))


def libraries(file):
    told = subprocess.run(["ldd", file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    missing = re.findall(r"(\S+) => not found", told.stdout)
    if missing:
        raise Problem(f"{file} needs {', '.join(missing)}, which this machine does not have")
    return re.findall(r"(?:=> |^\t)(/\S+)", told.stdout, re.MULTILINE)


def add_file(archive, path):
    """A file with its libraries, a link as what it points to, a folder with all that is in it."""
    path = Path(path)
    if path.is_dir():
        for below in sorted(path.rglob("*")):
            if below.is_file():
                add_file(archive, below)
        return
    where = usr_path(path)
    if where.strip("/") in archive.there:
        return
    data = path.read_bytes()
    archive.data(where, data, 0o755 if os.access(path, os.X_OK) else 0o644)
    if data[:4] == b"\x7fELF":
        for library in libraries(path):
            archive.data(usr_path(library), Path(library).read_bytes(), 0o755)


def locate(wanted, name, source, bin_dir):
    if name.startswith("/"):
        found = Path(name)
    elif name.startswith("build:"):  # A program of the build.
        found = bin_dir / name.removeprefix("build:")
    elif name.startswith("source:"):  # A file or folder of the source.
        found = source / name.removeprefix("source:")
    else:
        found = Path(shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") or f"/usr/bin/{name}")
    if not found.exists():
        raise Problem(f"{wanted.name}: program '{name}' is not there ({found})")
    return found


def add_image(archive, wanted, name, source, bin_dir, work):
    """An image of scripts/images.sh, made anew; the scripts look for it beside the programs."""
    made = subprocess.run([source / "scripts/images.sh", bin_dir.parent, work, name],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if made.returncode != 0:
        raise Problem(f"{wanted.name}: image '{name}' cannot be made: {made.stdout[-1000:]}")
    archive.data(f"{bin_dir.parent}/images/{name}.tar", (work / f"{name}.tar").read_bytes())


def plan(wanted):
    """What init runs: one call of its function `step` a step, those of a later boot behind one of `reboot_into`."""
    lines, boot = ["if [ $boot = 0 ]; then", ":"], 0
    for step in wanted.steps:
        if "reboot" in step:
            boot += 1
            lines += [f"reboot_into {boot}", "fi", f"if [ $boot = {boot} ]; then", ":"]
            continue
        command = step.get("run", "")
        if "suite" in step:
            command = f'"$PODLANE_BIN/../tests/{step["suite"]}" --gtest_output=json:/vm/gtest.json --gtest_brief=1'
            if "filter" in step:
                command += f" --gtest_filter={shlex.quote(step['filter'])}"
        lines.append(f"step {step['name']} {step.get('timeoutSeconds', 300)} {shlex.quote(command)}")
    return "\n".join([*lines, "fi"]) + "\n"


def mac(at):
    return f"52:54:00:b0:0d:{at + 1:02x}"


def build(path, wanted, kernel, source, bin_dir):
    bin_dir = bin_dir.resolve()
    with open(path, "wb") as file:
        archive = Cpio(file)
        for directory in ("bin", "sbin", "lib", "lib64"):
            archive.directory(f"usr/{directory}")
            archive.link(directory, f"usr/{directory}")
        for directory in ("proc", "sys", "dev", "run", "tmp", "var/lib", "opt", "etc", "root", "mnt", "vm"):
            archive.directory(directory)
        archive.entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
        archive.data("etc/passwd", b"root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        archive.data("etc/group", b"root:x:0:\nnogroup:x:65534:\n")
        archive.data("etc/hosts", b"127.0.0.1 localhost\n")
        archive.data("etc/resolv.conf", b"")
        archive.data("init", (HERE / "init").read_bytes(), 0o755)
        for name in BASE + [one for name in wanted.programs for one in SETS.get(name, [name])]:
            if name.startswith("image:"):
                add_image(archive, wanted, name.removeprefix("image:"), source, bin_dir, path.parent)
            else:
                add_file(archive, locate(wanted, name, source, bin_dir))
        if any("suite" in step for step in wanted.steps):
            add_file(archive, bin_dir)
        for suite in sorted({step["suite"] for step in wanted.steps if "suite" in step}):
            add_file(archive, locate(wanted, f"build:../tests/{suite}", source, bin_dir).resolve())
        for script in sorted((HERE / "steps").iterdir()):
            archive.data(f"vm/steps/{script.name}", script.read_bytes(), 0o755)
        modules = kernels.modules_in_order(wanted, kernel)
        for name, data in modules:
            archive.data(f"vm/modules/{name}.ko", data)
        archive.data("vm/modules/order", "".join(f"{name}\n" for name, _ in modules).encode())
        archive.data("vm/nics", "".join(f"{mac(at)} {nic['name']} {nic.get('netns', '')}\n"
                                        for at, nic in enumerate(wanted.nics)).encode())
        archive.data("vm/mounts", "".join(f"/dev/nvme{at}n1 {disk['mount']}\n" for at, disk in enumerate(wanted.nvme)
                                          if "mount" in disk).encode())
        # Software emulation makes everything some ten times slower, and a busy host more.
        archive.data("vm/environment",
                     f"export PODLANE_BIN={bin_dir} PODLANE_SOURCE={source} PODLANE_TEST_PATIENCE=10\n".encode())
        archive.data("vm/plan", plan(wanted).encode())
        archive.end()
