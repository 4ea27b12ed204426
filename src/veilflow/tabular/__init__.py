"""Tables and arrays: declared columns, files and frames in, files and frames out."""

from veilflow.tabular.codec import decode, encode, iter_encoded, write_encoded
from veilflow.tabular.columns import (
    Boolean,
    Categorical,
    Column,
    Datetime,
    Numeric,
    OpenCategorical,
    Ordinal,
)
from veilflow.tabular.constraints import (
    Allowed,
    AtMost,
    Between,
    Derived,
    Equal,
    MissingIf,
    MissingTogether,
    Near,
    Sum,
)
from veilflow.tabular.draft import draft_schema
from veilflow.tabular.encoded import EncodedRows
from veilflow.tabular.io import Rows, read_rows, write_rows
from veilflow.tabular.number_columns import Clock, ListedNumeric
from veilflow.tabular.raw import open_values
from veilflow.tabular.satisfaction import satisfied
from veilflow.tabular.schema import Schema
from veilflow.tabular.stream import write_chunks

__all__ = [
    "Allowed",
    "AtMost",
    "Between",
    "Boolean",
    "Categorical",
    "Clock",
    "Column",
    "Datetime",
    "Derived",
    "EncodedRows",
    "Equal",
    "ListedNumeric",
    "MissingIf",
    "MissingTogether",
    "Near",
    "Numeric",
    "OpenCategorical",
    "Ordinal",
    "Rows",
    "Schema",
    "Sum",
    "decode",
    "draft_schema",
    "encode",
    "iter_encoded",
    "open_values",
    "read_rows",
    "satisfied",
    "write_chunks",
    "write_encoded",
    "write_rows",
]
