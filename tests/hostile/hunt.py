"""The hunt: damaged files are loaded one by one, and everything that must not happen is counted.

While a file is loaded an audit hook watches what Python is asked to do: no program may be started, no
pickle resolved, no file opened for writing but the loaded one, and never the bait beside its folder.
"""

import contextlib
import os
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile.mutate import Damage

LONGEST = 10.0
"""Seconds that any file may take."""
_FORBIDDEN = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.forkpty",
    "subprocess.Popen",
    "pickle.find_class",
    "socket.connect",
    "socket.bind",
    "ctypes.dlopen",
)
_CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.chmod")
_CHANGES += ("os.truncate", "shutil.rmtree", "shutil.copyfile", "shutil.move", "os.chown")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Loader:
    """What reads files of one kind, whole ones of that kind, and how they are damaged."""

    load: Callable[[Path], Any]
    seeds: tuple[bytes, ...]
    damage: Damage
    allowed: tuple[type[Exception], ...]
    """What it may raise."""
    name: str = "file"
    """Of the file, whose end tells its kind."""
    mode: int = 0o600


@dataclass
class Found:
    """What a hunt came upon."""

    inputs: int = 0
    loaded: int = 0
    crashes: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    slowest: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether nothing happened that must not."""
        return not (self.crashes or self.hangs or self.outside)


class HangError(BaseException):
    """A file took too long; no `except Exception` catches it."""


class _Watch:
    """What the hook has seen since it was last asked; inert outside of a hunt."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.seen: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event in _FORBIDDEN:
            self.seen.append(event)
        elif event in _CHANGES:
            self._look(event, arguments[:2])
        elif event == "open":
            path, mode, flags = arguments
            writes = isinstance(mode, str) and any(letter in mode for letter in "wax+")
            if writes or (isinstance(flags, int) and flags & _WRITING):
                self._look("written", (path,))
            elif isinstance(path, str | bytes) and "bait" in os.path.basename(os.fsdecode(path)):
                self._look("read", (path,))
            elif path in ("/etc/passwd", b"/etc/passwd"):
                self.seen.append("read /etc/passwd")

    def _look(self, what: str, paths: tuple[Any, ...]) -> None:
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike):
                where = os.path.realpath(os.fsdecode(path))
                if not where.startswith((f"{self.folder}{os.sep}", "/dev/null")):
                    self.seen.append(f"{what}: {os.path.basename(where)}")


_watch = _Watch()
_hooked = False


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[list[str]]:
    """What is done outside of a folder within the block, or done at all and forbidden."""
    global _hooked
    if not _hooked:  # a hook stays for good
        sys.addaudithook(_watch)
        _hooked = True
    _watch.folder, _watch.seen = os.path.realpath(folder), []
    try:
        yield _watch.seen
    finally:
        _watch.folder = None


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise HangError within the block when the time is up; only the main thread hears signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def hunt(
    loader: Loader,
    root: Path,
    *,
    count: int,
    first: int = 0,
    seed: int = 0,
    told: Callable[[int], None] | None = None,
) -> Found:
    """Load that many damaged files.

    Args:
        loader: What loads them.
        root: An empty folder. Files lie in a folder below it, with bait outside of that.
        count: How many.
        first: The number of the first; each is made from the seed and its number alone.
        seed: The same seed damages the same files.
        told: Hears the number of the file that is about to be loaded.
    """
    found = Found()
    target = root / "target"
    target.mkdir()
    (root / "bait").write_bytes(b"outside")
    (root / "bait.png").write_bytes(b"outside")
    path = target / loader.name
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for whole in loader.seeds:  # also imports what loading imports, before anything is watched
            _place(path, whole, loader.mode)
            loader.load(path)
        before = _tree(root)
        for number in range(first, first + count):
            if told is not None:
                told(number)
            rng = random.Random(f"{seed} {number}")
            _place(path, loader.damage(rng.choice(loader.seeds), rng), loader.mode)
            _one(loader, path, target, found, number)
            if number % 200 == 199:
                found.outside += [f"made {name}" for name in sorted(_tree(root) - before)]
    found.outside += [f"made {name}" for name in sorted(_tree(root) - before)]
    return found


def _one(loader: Loader, path: Path, target: Path, found: Found, number: int) -> None:
    started = time.monotonic()
    try:
        with watched(target) as seen, limited():
            loader.load(path)
        found.loaded += 1
    except loader.allowed:
        pass
    except HangError:
        found.hangs.append(f"input {number}")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        found.crashes.append(
            f"input {number}: {type(error).__name__} at {where}: {str(error)[:200]}"
        )
    found.inputs += 1
    found.outside += [f"input {number}: {what}" for what in seen]
    found.slowest = max(found.slowest, time.monotonic() - started)


def _place(path: Path, data: bytes, mode: int) -> None:
    path.unlink(missing_ok=True)  # a loader may have mended the one before
    path.write_bytes(data)
    path.chmod(mode)


def _tree(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*")}
