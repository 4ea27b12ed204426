"""CVSim-6, the human circulation in six compartments, in JAX; and patients that it simulates."""

from reproductions.dp_nf_vi.simulator.cohort import ATTRIBUTES as ATTRIBUTES
from reproductions.dp_nf_vi.simulator.cohort import KEPT as KEPT
from reproductions.dp_nf_vi.simulator.cohort import hospital as hospital
from reproductions.dp_nf_vi.simulator.cvsim6 import Circulation as Circulation
from reproductions.dp_nf_vi.simulator.cvsim6 import History as History
from reproductions.dp_nf_vi.simulator.cvsim6 import simulate as simulate
from reproductions.dp_nf_vi.simulator.cvsim6 import steady_volumes as steady_volumes
from reproductions.dp_nf_vi.simulator.emulator import Emulator as Emulator
from reproductions.dp_nf_vi.simulator.emulator import emulate as emulate
from reproductions.dp_nf_vi.simulator.outputs import DYNE as DYNE
from reproductions.dp_nf_vi.simulator.outputs import EIGHT as EIGHT
from reproductions.dp_nf_vi.simulator.outputs import eight as eight
from reproductions.dp_nf_vi.simulator.outputs import measured as measured

__all__ = [
    "ATTRIBUTES",
    "DYNE",
    "EIGHT",
    "KEPT",
    "Circulation",
    "Emulator",
    "History",
    "eight",
    "emulate",
    "hospital",
    "measured",
    "simulate",
    "steady_volumes",
]
