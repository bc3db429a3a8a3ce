"""What the figures were measured on and with."""

import importlib.metadata
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

PACKAGES = ("tellwire", "uvloop", "msgspec", "mcp", "pydantic", "redis", "hiredis")
SYNC_PROBES = 60


def describe(folder: Path) -> dict[str, str]:
    """Machine, disk and versions, each in a line."""
    versions = [f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}"]
    versions += [f"{package} {_version(package)}" for package in PACKAGES]
    versions.append(f"redis-server {_redis_version()}")
    overwrite_us, append_us = sync_us(folder)
    return {
        "machine": f"{os.cpu_count()} × {_processor()}, {_memory_gb():.0f} GB, {platform.platform()}",
        "disk": f"{filesystem(folder)} at {folder.parent}, fdatasync of 4 kB p50:"
        f" {overwrite_us:.0f} us overwrite, {append_us:.0f} us append",
        "versions": ", ".join(versions),
        "begun": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
        "load average before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def lasting_folder() -> Path:
    """Where temporary folders can be made that lie on a disk, so that a sync is a sync."""
    usual = Path(tempfile.gettempdir())
    lasting = Path("/var/tmp")
    return lasting if filesystem(usual) == "tmpfs" and lasting.is_dir() else usual


def filesystem(folder: Path) -> str:
    """The kind of file system that holds this folder."""
    held, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, name, *_ = line.split()
        if folder.resolve().is_relative_to(point) and len(point) >= len(held):
            held, kind = point, name
    return kind


def sync_us(folder: Path) -> tuple[float, float]:
    """Median microseconds of an fdatasync after 4 kB: over old bytes, and at the end of a growing file."""
    return _probe(folder, growing=False), _probe(folder, growing=True)


def _probe(folder: Path, *, growing: bool) -> float:
    block = os.urandom(4096)
    times: list[float] = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for number in range(SYNC_PROBES):
            file.seek(4096 * number if growing else 0)
            file.write(block)
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begun)
    return statistics.median(times[5:]) * 1e6


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _redis_version() -> str:
    server = shutil.which("redis-server")
    if server is None:
        return "missing"
    answer = subprocess.run([server, "--version"], capture_output=True, text=True, timeout=10, check=False)
    return next((word[2:] for word in answer.stdout.split() if word.startswith("v=")), "unknown")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
