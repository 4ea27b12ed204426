"""How far the package is from the one that is planned, as one table.

    python -m tools.house                 # a minute at most: it fits one small model
    python -m tools.house --json now.json

The columns: what the package measured when the plan was made (commit 2a92ba3), what it measures now,
and what is planned. *The estimator shell* are the files of `models/` that speak of what a fit
promises, pays, releases, keeps or resumes: they name one of the types in `SHELL`. The others
are networks, flows, losses and arithmetic. *Hops* are defined in `tools.hops`, duplicates in
`tools.clones`; for both, the plan counted in another way, and its number is given beside ours.
"""

import argparse
import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import veilflow as vf
from tools import clones, hops, source

# with the lines of their files when the plan was made
ESTIMATORS = {
    "MixtureDensity": 173,
    "DensityFlow": 382,
    "TableFlow": 387,
    "ImageFlow": 363,
    "FlowPosterior": 371,
    "ExpMechClassifier": 254,
    "LikelihoodDetector": 336,
    "EnsembleDetector": 279,
    "ChainedImputer": 168,
}
SHELL = {"Artifact", "Budget", "Checkpoint", "Guarantee", "Ledger", "Released"} | {
    # the types of the plan, which take their places
    *("Assumption", "Estimator", "FitPlan", "Fitted", "Release", "Run"),
}


@dataclass(frozen=True)
class Row:
    """One line of the table, each column in words."""

    what: str
    then: str
    now: str
    there: str


def measure() -> dict[str, Any]:
    """Everything that is measured, for JSON."""
    tree = source.modules()
    models = [module for module in tree if module.folder == "models"]
    imported = source.imports(tree)
    classes = {name: getattr(vf, name) for name in ESTIMATORS}
    arguments = {name: list(inspect.signature(kind).parameters) for name, kind in classes.items()}
    lines = {module.path: module.lines for module in tree}
    path = hops.hops()
    return {
        "lines": sum(module.lines for module in tree),
        "modules": len(tree),
        "models_lines": sum(module.lines for module in models),
        "opens": source.opens_by_folder(tree),
        "shell_lines": sum(m.lines for m in models if SHELL & source.names_used(m.tree)),
        "hops": [": ".join(function) for function in path.hops],
        "functions_entered": len(path.entered),
        "modules_entered": len({file for file, _ in path.entered}),
        "estimator_lines": {name: lines[Path(inspect.getfile(c))] for name, c in classes.items()},
        "arguments": arguments,
        "distinct_arguments": sorted({name for names in arguments.values() for name in names}),
        "duplicates": [
            f"{a.relative_to(source.ROOT)}:{i} ~ {b.relative_to(source.ROOT)}:{j}"
            for a, i, b, j in clones.pairs(lines)
        ],
        "fan_out": {m.name: len(imported[m.name]) for m in tree if m.path.name != "__init__.py"},
        "fan_in": source.fan_in(imported),
    }


def table(now: dict[str, Any]) -> list[Row]:
    """The measurements beside those of the plan."""
    opens, files = now["opens"], now["estimator_lines"].values()
    in_models, everywhere = opens.get("models", 0), sum(opens.values())
    folders = ", ".join(f"{folder} {count}" for folder, count in opens.items())
    return [
        Row(
            "lines in src / modules",
            "47,700 / 412",
            f"{now['lines']:,} / {now['modules']}",
            "about 36,000 / 270",
        ),
        Row("lines of models/", "18,900", f"{now['models_lines']:,}", "about 9,000"),
        Row(".open() in models/", "34 of 44", f"{in_models} of {everywhere}", "0"),
        Row(
            ".open() by folder",
            "engine 4, models 34, privacy 5, reports 1",
            folders,
            "privacy, engine, releases only",
        ),
        Row("lines of the estimator shell", "8,970", f"{now['shell_lines']:,}", "about 4,500"),
        Row(
            "hops of a CSV row to a model and back",
            "45 (42 so counted)",
            str(len(now["hops"])),
            "25",
        ),
        Row(
            "functions / modules entered on that way",
            "432 / 68",
            f"{now['functions_entered']} / {now['modules_entered']}",
            "",
        ),
        Row("lines of an estimator's file", "250-390", f"{min(files)}-{max(files)}", "<= 200"),
        *(
            Row(f"  {name}", str(ESTIMATORS[name]), str(count), "<= 200")
            for name, count in now["estimator_lines"].items()
        ),
        Row("distinct constructor arguments", "67", str(len(now["distinct_arguments"])), "<= 35"),
        Row(
            "pairs of duplicates in src",
            "139 (144 so counted)",
            str(len(now["duplicates"])),
            "<= 60",
        ),
        Row(
            "fan-out of a module: median, most",
            "3, 20 (models.posterior.flow_posterior)",
            _spread(now["fan_out"]),
            "",
        ),
        Row("fan-in of a module: median, most", "2, 141 (_core.check)", _spread(now["fan_in"]), ""),
    ]


def _spread(counts: dict[str, int]) -> str:
    top = max(counts, key=lambda name: counts[name])
    return f"{median(counts.values()):g}, {counts[top]} ({top.removeprefix('veilflow.')})"


def markdown(rows: list[Row]) -> str:
    """The table as Markdown."""
    cells = [("", "at 2a92ba3", "now", "there"), *((r.what, r.then, r.now, r.there) for r in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    lines = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def main() -> None:
    """Print the table; with `--json`, write every measurement to a file as well."""
    parser = argparse.ArgumentParser(description="How far the package is from its plan.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all measurements here")
    out = parser.parse_args().json
    now = measure()
    print(markdown(table(now)))
    if out:
        out.write_text(json.dumps(now, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
