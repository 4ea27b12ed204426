"""Tables to codes and positions, and back."""

from veilflow.tabular.decoding import decode, write_encoded
from veilflow.tabular.encoded import EncodedRows, Vocabularies
from veilflow.tabular.encoding import encode, iter_encoded, open_numbers, open_values

__all__ = [
    "EncodedRows",
    "Vocabularies",
    "decode",
    "encode",
    "iter_encoded",
    "open_numbers",
    "open_values",
    "write_encoded",
]
