"""`veilflow schema --look-for-structure`: what holds in all rows, as entries that a person may declare.

Entries are comments, so nothing of them is used. Whoever removes the comment marks declares them.
"""

import json
import re
from typing import TYPE_CHECKING, Any

from veilflow.evaluation.structure import Statement, find_structure, single
from veilflow.evaluation.structure import relations as about

if TYPE_CHECKING:
    from veilflow.tabular.schema import Schema

_HEAD = (
    "STRUCTURE, NOT PUBLIC: found in the data. Each entry holds in all or nearly all rows that were",
    "read. Remove the marks of comments from what is known without the data: it then holds in every",
    "synthetic row. Delete the rest.",
)
_NAME = re.compile(r"[^\W\d]\w*")
_MOST_ROWS = 200
_PARTS = {"weekday (Monday is 0)": "weekday", "day of the month": "day"}


def proposals(data: Any, schema: "Schema", *, invalid: str) -> tuple[list[str], int]:
    """Lines of comments for the file of a draft, and how many statements they hold.

    Args:
        data: The table.
        schema: Its draft.
        invalid: How lines of text are read, as for a fit.
    """
    found = find_structure(_frame(data, invalid), schema)
    if not found:
        return [], 0
    lines = [*_HEAD, ""]
    for statement in found:
        lines.append(f"{statement.text} ({100 * statement.share:.4g} % of rows)")
        lines += [*_entry(statement), ""]
    return lines[:-1], len(found)


def _frame(data: Any, invalid: str) -> Any:
    """The cells of a table as text, or as the types that its file has."""
    import pandas as pd

    from veilflow.tabular.frames import CHUNK, open_table

    names, blocks = open_table(data, chunk=CHUNK, by_line=invalid == "replace")
    parts = [
        pd.DataFrame({name: block(place).to_pandas() for place, name in enumerate(names)})
        for block in blocks
    ]
    return pd.concat(parts, ignore_index=True)


def _entry(statement: Statement) -> list[str]:
    """The entry of a schema's file that declares a statement; nothing if none can."""
    first, *others = statement.columns
    match statement:
        case about.MissingTogether():
            return _constraint("missing_together", columns=list(statement.columns))
        case about.ImpliedGap():
            return _constraint("missing_if", column=others[0], when=first)
        case about.Equal():
            return _derived(others[0], _quoted(first))
        case about.Near():
            return _constraint("near", column=others[0], of=first, within=statement.tolerance)
        case about.Order():
            return _constraint("at_most", low=first, high=others[0])
        case about.Digits():
            cut = _quoted(others[0])
            cut = cut if statement.floor == 1 else f"{cut} // {statement.floor}"
            return _derived(first, cut if statement.keep is None else f"({cut}) % {statement.keep}")
        case about.Scaled():
            return _derived(first, f"{_quoted(others[0])} / {1 / statement.factor:.9g}")
        case about.Part():
            part = _PARTS.get(statement.part, statement.part)
            return _derived(first, f"{part}({_quoted(others[0])})")
        case about.Total():
            terms = zip(statement.signs, others, strict=True)
            text = " ".join(f"{'+' if sign > 0 else '-'} {_quoted(name)}" for sign, name in terms)
            return _derived(first, text.removeprefix("+ "))
        case about.Product():
            return _derived(first, " * ".join(map(_quoted, others)))
        case about.Follows() if len(statement.pairs) <= _MOST_ROWS:
            if all(column.kind == "categorical" for column in statement.declared):
                rows = [[_plain(key), _plain(value)] for key, value in statement.pairs]
                return _constraint("allowed", columns=[others[0], first], rows=rows)
        case single.OftenMultiple():
            pass
        case single.Multiple():
            return [f"resolution = {statement.step:.12g}  # in the column's own table"]
    return []


def _constraint(kind: str, **fields: Any) -> list[str]:
    # JSON of text, numbers and lists is TOML, too
    lines = (f"{name} = {json.dumps(value)}" for name, value in fields.items())
    return ["[[constraints]]", f'kind = "{kind}"', *lines]


def _derived(column: str, expression: str) -> list[str]:
    return _constraint("derived", column=column, expression=expression)


def _quoted(name: str) -> str:
    """A name in an expression."""
    return name if _NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _plain(value: float | str) -> int | float | str:
    return int(value) if isinstance(value, float) and value.is_integer() else value
