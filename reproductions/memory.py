"""The peak memory of this process, counted anew before each run where the system can."""

import ctypes
import gc
import sys
from pathlib import Path

_CLEAR = Path("/proc/self/clear_refs")


def forget_peak() -> None:
    """Let the peak count from here on; elsewhere than on Linux it counts from the start."""
    gc.collect()
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).malloc_trim(0)  # what earlier runs left behind is not of this one
    try:
        _CLEAR.write_text("5")
    except OSError:  # some containers forbid it
        return


def peak_gigabytes() -> float | None:
    """The most memory the process had, rows and libraries included; None where it can't be known."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found * (1 if sys.platform == "darwin" else 1024) / 1e9
