"""A real redis-server on loopback, with a password and nothing on disk; killed as often as one likes."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import os
import shutil
import signal
import socket
from contextlib import suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.integration import daemons
from tests.integration.world import until

PASSWORD = "s3cret"
PORTS_TRIED = 5


def missing() -> str:
    """Why there is no redis-server here; empty if there is one."""
    return "" if shutil.which("redis-server") else daemons.missing()


class RedisServer:
    """One server; `kill` and `start` give one that has forgotten everything, at the same address."""

    def __init__(self, folder: Path, *, certificate: Path | None = None, key: Path | None = None) -> None:
        self.folder = folder
        self._tls = (certificate, key)
        self.port = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """How to reach it."""
        scheme = "rediss" if self._tls[0] else "redis"
        return f"{scheme}://:{PASSWORD}@127.0.0.1:{self.port}/0"

    async def start(self, *options: str) -> None:
        """Start it, and wait until it answers."""
        for _ in range(PORTS_TRIED):
            self.port = self.port or _free_port()
            words = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
            if self._tls[0]:
                words[1:3] = ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no"]
                words += ["--tls-cert-file", str(self._tls[0]), "--tls-key-file", str(self._tls[1])]
            words += ["--requirepass", PASSWORD, "--dir", str(self.folder), "--daemonize", "no", *options]
            if not shutil.which("redis-server"):
                words = daemons.inside(self.folder, *words)
            null = asyncio.subprocess.DEVNULL
            self._process = await asyncio.create_subprocess_exec(*words, stdin=null, stdout=null, stderr=null)
            await until(self._is_settled, what="redis-server listens")
            if self._process.returncode is None:
                return
            self.port = 0
        raise AssertionError("redis-server does not start")

    def _is_settled(self) -> bool:
        assert self._process is not None
        if self._process.returncode is not None:
            return True
        with socket.socket() as line:
            return line.connect_ex(("127.0.0.1", self.port)) == 0

    async def kill(self) -> None:
        """End it without a word, as a crash does."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            self._process = None


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody has signed but itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "redis")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "redis.crt", folder / "redis.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
