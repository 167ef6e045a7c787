"""Faults of a machine: a folder that cannot be written, a full disk, too few open files."""

import ctypes
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CAPGET, _CAPSET = 125, 126  # system calls, x86-64
_VERSION_3 = 0x20080522
_OVERRIDES = 0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: what lets root ignore permissions


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody write to a folder and the folders in it, not even root (in this thread)."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    effective = _effective_capabilities(-1)
    for path in folders:
        path.chmod(0o555)
    try:
        _effective_capabilities(~_OVERRIDES)
        yield
    finally:
        _effective_capabilities(-1, restore=effective)
        for path in folders:
            path.chmod(0o755)


def _effective_capabilities(keep: int, restore: int | None = None) -> int:
    """Drop effective capabilities of this thread, or restore them; return the first 32 before."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; each in two halves
    _check(libc.syscall(_CAPGET, header, data))
    before = data[0]
    data[0] = before & keep & 0xFFFFFFFF if restore is None else restore
    _check(libc.syscall(_CAPSET, header, data))
    return before


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def no_open_files() -> Iterator[None]:
    """Let this process open no more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(path.name) for path in Path("/proc/self/fd").iterdir()) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
    held = []
    try:
        with suppress(OSError):
            while True:  # numbers below the largest one may be free
                held.append(os.open("/dev/null", os.O_RDONLY))
        yield
    finally:
        for handle in held:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def full_disk(folder: Path, spare_bytes: int) -> Iterator[None]:
    """Fill the file system of a folder but for some bytes."""
    ballast = folder / "ballast"
    space = os.statvfs(folder)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, space.f_bavail * space.f_frsize - spare_bytes)
    try:
        yield
    finally:
        ballast.unlink()
