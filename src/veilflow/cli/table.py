"""`veilflow fit table`: learn a table, by the flow of codes or by the paper's flow."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from veilflow.cli import options
from veilflow.cli.fitting import FitFlags
from veilflow.cli.flags import Settings, SettingsOf, flag_of, given, refuse, share_or_none
from veilflow.cli.output import guarded

# a test compares these words with those of the library
Flow = StrEnum("Flow", ["CODES", "HFLOW"])
Linear = StrEnum("Linear", [("LOW_RANK", "low-rank"), ("LU", "lu"), ("NONE", "none")])
Network = StrEnum("Network", ["CONDITIONAL", "SEPARATE"])
Dequantization = StrEnum("Dequantization", ["UNIFORM", "VARIATIONAL"])
Clipping = StrEnum(
    "Clipping",
    [
        ("FLAT", "flat"),
        ("PER_LAYER", "per-layer"),
        ("PER_UNIT", "per-unit"),
        ("SPARSIFIED", "sparsified"),
    ],
)
Optimizer = StrEnum("Optimizer", ["ADAM", "ADABELIEF", "RMSPROP", "SGD"])
Extra = StrEnum("Extra", ["ERROR", "IGNORE"])

_ARCHITECTURE = "veilflow.models.table.architecture"
_BOTH = ("hidden", "most_bins")
_WORDS = {"linear": Linear, "network": Network, "dequantization": Dequantization}
_FLAGS = {"bins": "spline_bins"}
"""A bin of a spline is not a bin that a number is cut into."""


@guarded
def table(
    data: options.Table,
    schema: Path,
    flags: FitFlags,
    settings: Annotated[Settings, SettingsOf("veilflow.models.table.table_flow.TableFlow")],
    sizes: Annotated[Settings, SettingsOf(f"{_ARCHITECTURE}.CodeArchitecture", only=_BOTH)],
    codes: Annotated[
        Settings, SettingsOf(f"{_ARCHITECTURE}.CodeArchitecture", only=("label_weight",))
    ],
    hflow: Annotated[
        Settings,
        SettingsOf(
            f"{_ARCHITECTURE}.HFlowArchitecture", leave_out=_BOTH, words=_WORDS, flags=_FLAGS
        ),
    ],
    training: Annotated[
        Settings,
        SettingsOf(
            "veilflow.engine.training.Training",
            leave_out=("schedule", "rate_decay", "ema_decay"),
            words={"clipping": Clipping, "optimizer": Optimizer},
        ),
    ],
    flow: Flow = Flow.CODES,
    warm_start: str | None = None,
    extra: Extra = Extra.ERROR,
    encoding: options.Encoding = None,
    invalid: options.Invalid = options.InvalidCells.ERROR,
) -> None:
    """Learn a table of numbers, categories, dates and gaps (DP-HFlow).

    The schema says what is public about each column; `veilflow schema` drafts one. A dry run does not
    open the table.

    Flags:
        schema: TOML file of the declared columns.
        flow: The library's flow of codes, or hflow, the flow of the paper.
        warm_start: Share of the squared privacy parameter for noisy marginals, which the flow starts
            from; or none.
        pay_for_discovery: Forget what is not confirmed, and pay to find it. Kinds of columns must be
            confirmed.
        learn_structure: Pay for relations between columns and for gaps that come together, if there are
            enough records.
        most_bins: About how many bins a number is cut into.
        hidden: Hidden layers: their sizes, with commas.
        label_weight: The weight of the label in the loss of the flow of codes.
        blocks: Number of blocks of hflow, each a linear map and a spline.
        spline_bins: Number of bins of a spline of hflow; by default 8, and 16 without privacy.
        linear: The linear map of a block of hflow.
        rank: The rank of a low-rank map.
        network: One network for each block of hflow; conditional: one for all, as in the paper.
        dequantization: The noise that hflow adds to listed values; variational: trained.
        steps: Number of noisy training steps.
        clip_norm: Bound on one record's gradient.
        clipping: How gradients are clipped.
        sparsity: The fraction of entries that --clipping sparsified thins out.
        optimizer: By default adabelief for hflow, as in the paper, and adam for codes.
        learning_rate: Step size.
        extra: What to do with columns that the schema does not have.
    """
    fitting = flags.begin(data, schema)
    from veilflow.engine.training import Training
    from veilflow.models.table import architecture
    from veilflow.models.table.table_flow import TableFlow
    from veilflow.tabular.schema import Schema

    paper = flow is Flow.HFLOW
    others = {
        flag_of(_FLAGS.get(name, name)): value
        for name, value in (codes if paper else hflow).items()
    }
    refuse(
        others, f"is for --flow {'codes' if paper else 'hflow'}. Leave it out, or change --flow."
    )
    make = architecture.hflow if paper else architecture.codes
    settings |= given(warm_start=share_or_none("--warm-start", warm_start))
    model = TableFlow(
        schema=Schema.from_file(schema),
        flow=make(**sizes, **(hflow if paper else codes)),
        training=Training(**training),
        **fitting.settings,
        **settings,
    )

    def fit(**how: Any) -> Any:
        source = options.as_text(data, encoding)
        return model.fit(source, extra=str(extra), invalid=str(invalid), **how)

    fitting.finish(model.plan(), fit, data=data)
