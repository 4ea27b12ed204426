"""The sentences a guarantee of a fitted model may rest on, each said in one way only."""

from veilflow.models.domain import Box, Domain
from veilflow.privacy.ledger import Ledger

SEED_ASSUMPTION = "the seed was chosen by the user, is secret and is used for no other fit"
FLOAT_ASSUMPTION = "noise and sums in float32 count as exact"
SUM_ASSUMPTION = "sums in float32 count as exact"
GENERATOR_ASSUMPTION = "numbers from the Threefry generator count as random"


def declared(domain: Domain, *, num_records: int | None) -> str:
    """The sentence about facts that a person declared, and that the fit took as public."""
    what = "bounds" if isinstance(domain, Box) else "the largest norm of a row"
    verb = "were" if isinstance(domain, Box) else "was"
    if num_records is not None:
        what, verb = f"{what} and the number of records", "were"
    return f"{what} {verb} declared, not read from the records"


def assuming(ledger: Ledger, *, hardened: bool, generator: bool, seeded: bool) -> Ledger:
    """`ledger` with what Gaussian noise on floating-point sums rests on.

    Args:
        ledger: Of the fit.
        hardened: Whether all noise is drawn on a grid.
        generator: Whether a pseudorandom generator decides anything: batches, or noise.
        seeded: Whether a person chose its seed.
    """
    ledger = ledger.assuming(SUM_ASSUMPTION if hardened else FLOAT_ASSUMPTION)
    if generator:
        ledger = ledger.assuming(GENERATOR_ASSUMPTION)
    return ledger.assuming(SEED_ASSUMPTION) if generator and seeded else ledger
