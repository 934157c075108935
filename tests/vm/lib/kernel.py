"""Kernels from Debian's packages, unpacked into a cache outside the tree, and the modules of a scenario in them."""
import lzma
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lib.scenario import Problem


@dataclass
class Kernel:
    release: str
    image: Path
    modules: Path  # The folder lib/modules/<release>.


def cache():
    given = os.environ.get("PODLANE_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "podlane"


def numbers(release):
    return [int(part) for part in re.findall(r"\d+", release)[:2]]


def find(wanted, source):
    """The kernel that the scenario asks for; fetched when the cache does not have it."""
    suite = wanted.kernel["suite"]
    fetched = subprocess.run(
        ["bash", "-c", 'source "$1/scripts/lib/packages.sh" && packages_kernel "$2" "$3"', "kernel", source,
         f"kernel-{suite}", suite],
        env={**os.environ, "PODLANE_CACHE": str(cache())}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if fetched.returncode != 0:
        raise Problem(f"{wanted.name}: no kernel can be had from suite '{suite}':\n{fetched.stdout[-2000:]}")
    root = cache() / f"kernel-{suite}" / "root"
    # Newer packages have the image beside the modules and below /usr.
    for folder in sorted([*root.glob("lib/modules/*"), *root.glob("usr/lib/modules/*")]):
        release = folder.name
        image = next((path for path in (folder / "vmlinuz", root / "boot" / f"vmlinuz-{release}") if path.exists()), None)
        if image is None or not (folder / "kernel").is_dir():
            continue
        asked = wanted.kernel.get("version")
        if asked is not None and not re.match(re.escape(asked) + r"[.-]", release):
            raise Problem(f"{wanted.name}: suite '{suite}' has kernel {release} and the scenario asks for {asked}")
        least = wanted.kernel.get("atLeast")
        if least is not None and numbers(release) < numbers(least):
            raise Problem(f"{wanted.name}: suite '{suite}' has kernel {release} and the scenario asks for at least {least}")
        return Kernel(release, image, folder)
    raise Problem(f"{wanted.name}: the packages of suite '{suite}' hold no kernel")


def module_name(path):
    return path.name.split(".ko")[0].replace("-", "_")


def module_bytes(path):
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".ko":
        return data
    raise Problem(f"{path.name}: only .ko and .ko.xz can be read here")


def modules_in_order(wanted, kernel):
    """(name, bytes) of the scenario's modules and of all that they need, in loading order. What is built in is left out.

    The packages have no modules.dep (depmod makes it when they are installed); each module names its own needs.
    """
    files = {module_name(path): path for path in kernel.modules.rglob("*.ko*")}
    # The newest packages come without this list: what they have no module of must then be built in, or the steps fail.
    listed = kernel.modules / "modules.builtin"
    built_in = {module_name(Path(line)) for line in listed.read_text().split()} if listed.exists() else None
    order = {}

    def add(name):
        if name in order or name in (built_in or ()) or (built_in is None and name not in files):
            return
        if name not in files:
            raise Problem(f"{wanted.name}: kernel {kernel.release} has no module '{name}'")
        data = module_bytes(files[name])
        needs = re.search(rb"\0depends=([^\0]*)\0", b"\0" + data)
        for need in needs.group(1).decode().split(",") if needs and needs.group(1) else []:
            add(need.replace("-", "_"))
        order[name] = data

    for name in wanted.modules:
        add(name.replace("-", "_"))
    return list(order.items())
