"""A memory limit for a process and all that it starts, by a control group of Linux.

The limit that a process sets on itself (`process_limits`) holds for each of its children anew. A
group holds for all of them together, and ends all of them with it. It needs a place where this
process may create one: as root, or below a service manager that delegates its groups to the user.
Where there is none, the limit of the process itself is all there is.
"""

import logging
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_log = logging.getLogger(__name__)
_ROOT, _OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_PREFIX = "evenflow-"
_told = False


class MemoryGroup:
    """A control group of one process and all that it starts; `close` ends them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def create(
        cls, process: int, most_bytes: int, root: Path = _ROOT, own: Path = _OWN
    ) -> "MemoryGroup | None":
        """Return a new group for a process; None where this one may not make one."""
        global _told  # noqa: PLW0603 - once in a process
        for parent, limit in _places(root, own):
            _remove_empty_groups(parent)
            folder = parent / f"{_PREFIX}{process}"
            try:
                folder.mkdir()
                (folder / limit).write_text(str(most_bytes))
                with suppress(OSError):
                    (folder / "memory.swap.max").write_text("0")
                (folder / "cgroup.procs").write_text(str(process))
            except OSError as error:
                _log.info("process %s cannot join a control group: %s", process, error)
                with suppress(OSError):
                    folder.rmdir()
                continue
            return cls(folder)
        if not _told:
            _told = True
            _log.warning("no control group can be made here: memory is limited process by process")
        return None

    def members(self) -> list[int]:
        """Return the processes of the group."""
        with suppress(OSError):
            return [int(pid) for pid in (self._folder / "cgroup.procs").read_text().split()]
        return []

    def close(self) -> None:
        """End all processes of the group and remove it."""
        with suppress(OSError):
            (self._folder / "cgroup.kill").write_text("1")  # of version 2
        for _ in range(50):
            with suppress(OSError):
                self._folder.rmdir()
            if not self._folder.exists():
                return
            for process in self.members():
                with suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.01)
        _log.warning("the control group %s cannot be removed", self._folder)


def _remove_empty_groups(parent: Path) -> None:
    """Remove the groups of processes that ended while nobody looked after them."""
    for folder in parent.glob(f"{_PREFIX}*"):
        if not Path(f"/proc/{folder.name.removeprefix(_PREFIX)}").exists():
            with suppress(OSError):
                folder.rmdir()


def _places(root: Path, own: Path) -> list[tuple[Path, str]]:
    """Return where groups may be made, and the name of the file with their limit.

    Of version 2 a group that has processes has no groups with limits, so theirs is beside it.
    """
    found: list[tuple[Path, str]] = []
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            here = path.strip("/")
            if controllers == "" and here:
                parent = (root / here).parent
                with suppress(OSError):
                    if "memory" in (parent / "cgroup.subtree_control").read_text().split():
                        found.append((parent, "memory.max"))
            elif "memory" in controllers.split(","):
                found.append((root / "memory" / here, "memory.limit_in_bytes"))
    return [(folder, limit) for folder, limit in found if os.access(folder, os.W_OK)]
