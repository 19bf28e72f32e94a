"""What a child process is held to by the system itself, whatever the SQL or the file in it does.

    memory      a thread that looks at the process's own memory every few milliseconds and ends it; below that
                RLIMIT_AS, so that one huge allocation fails at once (not on macOS, which ignores it)
    cpu, files  RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_NOFILE; no core file
    network     a seccomp filter (Linux on x86-64 and arm64): no socket, no other program, no new process
    writes      Landlock (Linux 5.13 or newer): nothing outside the child's own folder

Each that cannot be had is missing from what `confine` returns, and the engine reports it (`DataEngine.protections`).
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

OUT_OF_MEMORY = 86
"""The exit status of a child that has passed its memory."""
_MEGABYTE = 1 << 20
_LOOK_EVERY = 0.01
_OPEN_FILES = 256
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

# System calls that are refused, by their number on each machine.
_REFUSED = {
    "x86_64": (
        "socket 41 connect 42 accept 43 sendto 44 sendmsg 46 bind 49 listen 50 fork 57 vfork 58 execve 59 kill 62 "
        "ptrace 101 mount 165 init_module 175 keyctl 250 unshare 272 perf_event_open 298 open_by_handle_at 304 "
        "setns 308 "
        "process_vm_readv 310 process_vm_writev 311 finit_module 313 bpf 321 execveat 322 userfaultfd 323 "
        "io_uring_setup 425"
    ),
    "aarch64": (
        "mount 40 unshare 97 init_module 105 ptrace 117 kill 129 socket 198 bind 200 listen 201 accept 202 connect 203 "
        "sendto 206 sendmsg 211 keyctl 219 execve 221 perf_event_open 241 open_by_handle_at 265 setns 268 "
        "process_vm_readv 270 process_vm_writev 271 finit_module 273 bpf 280 execveat 281 userfaultfd 282 "
        "io_uring_setup 425"
    ),
}
_MACHINE = {"x86_64": (0xC000003E, 56), "aarch64": (0xC00000B7, 220)}  # what the kernel calls it; its number of clone
_CLONE3, _CLONE_THREAD = 435, 0x10000
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050026


def confine(folder: Path) -> dict[str, bool]:
    """Take away what no job needs. Must run before the first thread starts: only later ones inherit it."""
    os.umask(0o077)
    held = {
        "cpu_time": False,
        "file_size": False,
        "address_space": False,
        "no_network": False,
        "own_folder_only": False,
    }
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        most = _OPEN_FILES if files == resource.RLIM_INFINITY else min(files, _OPEN_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        held |= {"cpu_time": True, "file_size": True, "address_space": sys.platform.startswith("linux")}
    if sys.platform.startswith("linux"):
        held["own_folder_only"] = _landlock(folder)
        held["no_network"] = _seccomp()
    return held | {"memory": resource is not None}


@contextmanager
def held_to(*, megabytes: int, cpu_seconds: int, disk_megabytes: int) -> Iterator[None]:
    """One job under its limits. A soft limit can be raised again for the next job, by us alone."""
    if resource is None:
        yield
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limits = {
        resource.RLIMIT_CPU: int(usage.ru_utime + usage.ru_stime) + cpu_seconds + 1,
        resource.RLIMIT_FSIZE: disk_megabytes * _MEGABYTE,
    }
    if sys.platform.startswith("linux"):
        # DuckDB and its threads reserve about three times the address space that they fill (measured).
        limits[resource.RLIMIT_AS] = _pages(0) + (3 * megabytes + 256) * _MEGABYTE
    before = {limit: resource.getrlimit(limit) for limit in limits}
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(megabytes * _MEGABYTE, done), daemon=True)
    watch.start()
    try:
        for limit, value in limits.items():
            hard = before[limit][1]
            resource.setrlimit(limit, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
        yield
    finally:
        done.set()
        watch.join()
        for limit, values in before.items():
            resource.setrlimit(limit, values)


def _watch(most: int, done: threading.Event) -> None:
    while not done.wait(_LOOK_EVERY):
        if memory() > most:
            os._exit(OUT_OF_MEMORY)


def memory() -> int:
    """Bytes of memory this process fills now (on macOS: the most it ever filled)."""
    if sys.platform.startswith("linux"):
        return _pages(1)
    return _most_ever()


class PeakMeter:
    """The most memory that this process fills. Made before `confine`, which shuts the file that it needs."""

    def __init__(self) -> None:
        try:
            self._reset: int | None = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:  # there is none: not Linux, or a kernel built without it
            self._reset = None
        libc = ctypes.CDLL(None) if os.name == "posix" else None
        self._trim = getattr(libc, "malloc_trim", None)  # the GNU C library's alone

    def restart(self) -> None:
        """Give memory back to the system, and measure from here."""
        if self._trim is not None:
            self._trim(0)
        if self._reset is not None:
            os.write(self._reset, b"5")

    def peak(self) -> int:
        """Bytes since `restart`, or since the process began where that cannot be measured."""
        if sys.platform.startswith("linux"):
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        return _most_ever()


def _pages(field: int) -> int:
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read().split()[field]) * _PAGE


def _most_ever() -> int:
    if resource is None:
        return 0
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024


def _seccomp() -> bool:
    """A filter that refuses the network, other programs and new processes, for this process and all its threads."""
    name = platform.machine()
    if name not in _REFUSED:
        return False
    machine, clone = _MACHINE[name]
    refused = [int(word) for word in _REFUSED[name].split() if word.isdigit()]
    load, equal, any_bit, give = 0x20, 0x15, 0x45, 0x06
    steps = [(load, 0, 0, 4), (equal, 1, 0, machine), (give, 0, 0, _EPERM), (load, 0, 0, 0)]
    steps += [(0x35, 0, 1, 0x40000000), (give, 0, 0, _EPERM)]  # the other way to call x86-64, with other numbers
    for number in refused:
        steps += [(equal, 0, 1, number), (give, 0, 0, _EPERM)]
    steps += [(equal, 0, 1, _CLONE3), (give, 0, 0, _ENOSYS)]  # the C library then calls clone, whose flags can be seen
    steps += [(equal, 0, 4, clone), (load, 0, 0, 16), (any_bit, 1, 0, _CLONE_THREAD), (give, 0, 0, _EPERM)]
    steps += [(give, 0, 0, _ALLOW), (give, 0, 0, _ALLOW)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(set_seccomp, filter_mode, ctypes.c_void_p(ctypes.addressof(head)), 0, 0) == 0)


def _landlock(folder: Path) -> bool:
    """Nothing can be written, made, renamed or deleted outside the folder; reading is as before."""
    create, add, restrict = 444, 445, 446
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(create, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    rights = 1 << 1  # write to a file
    rights |= sum(1 << bit for bit in range(4, 13))  # remove and make
    rights |= (1 << 13 if version >= 2 else 0) | (1 << 14 if version >= 3 else 0)  # move between folders; truncate
    asked = ctypes.create_string_buffer(struct.pack("=Q", rights), 8)
    rules = libc.syscall(create, asked, ctypes.c_size_t(8), 0)
    if rules < 0:
        return False
    inside = os.open(folder, getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
    try:
        below = ctypes.create_string_buffer(struct.pack("=Qi", rights, inside), 12)
        if libc.syscall(add, rules, 1, below, 0) != 0:
            return False
        libc.prctl(38, 1, 0, 0, 0)
        return bool(libc.syscall(restrict, rules, 0) == 0)
    finally:
        os.close(inside)
        os.close(rules)
