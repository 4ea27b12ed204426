"""How batches were drawn, as far as a ledger tells."""

from veilflow.privacy.events import Event, PoissonSampled, Repeated, Together
from veilflow.privacy.ledger import Ledger

NO_BATCHES = "no batches"


def sampling(ledger: Ledger) -> str:
    """How batches were drawn, in words, as far as the ledger tells."""
    if not ledger.entries:
        return ""
    return "Poisson" if any(_samples(entry.event) for entry in ledger.entries) else NO_BATCHES


def _samples(event: Event) -> bool:
    if isinstance(event, Together):
        return any(_samples(part) for part in event.events)
    return (
        _samples(event.event) if isinstance(event, Repeated) else isinstance(event, PoissonSampled)
    )
