"""CVSim-6: the human circulation in six compartments, in JAX."""

from veilflow.models.circulation.cvsim6 import Circulation as Circulation
from veilflow.models.circulation.cvsim6 import History as History
from veilflow.models.circulation.cvsim6 import simulate as simulate
from veilflow.models.circulation.cvsim6 import steady_volumes as steady_volumes
from veilflow.models.circulation.emulator import Emulator as Emulator
from veilflow.models.circulation.emulator import emulate as emulate
from veilflow.models.circulation.outputs import DYNE as DYNE
from veilflow.models.circulation.outputs import EIGHT as EIGHT
from veilflow.models.circulation.outputs import eight as eight
from veilflow.models.circulation.outputs import measured as measured

__all__ = [
    "DYNE",
    "EIGHT",
    "Circulation",
    "Emulator",
    "History",
    "eight",
    "emulate",
    "measured",
    "simulate",
    "steady_volumes",
]
