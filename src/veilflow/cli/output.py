"""How commands speak: results on standard output, everything else on standard error.

With --json, an error is an object on standard output, too: {"error": ..., "kind": ...}.

Exit codes: 0 success; 2 flags, settings or data that cannot be used; 130 interrupted; 1 any other
failure. Set VEILFLOW_TRACEBACK=1 to see where an
error came from.
"""

import contextlib
import dataclasses
import functools
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from typer.models import OptionInfo

from veilflow._core.errors import VeilflowError
from veilflow.cli.flags import expanded

if TYPE_CHECKING:
    from veilflow.privacy.guarantees import Guarantee

_VALUE = r"""['"]([\w-]+)['"]|True|\.\.\.|(?=[.,;) ]|$)"""
_SAID_ALREADY = r"(?: \(--[^()]+\))?"
_ARGUMENT = re.compile(rf"\b([a-z_]+)=(?:{_VALUE}){_SAID_ALREADY}")
# arguments that a command may have no flag for; then nobody should go and look for one
_ONLY_PYTHON = ("size", "color", "layout", "invalid", "labels")


_has_result: ContextVar[bool] = ContextVar("_has_result", default=False)
"""Whether the command has printed its result: with --json, there is one object in all."""


def guarded(function: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors are one line on standard error and an exit code, not a traceback.

    Groups of flags among the parameters of the function become single flags; see `flags.expanded`.
    """
    command = expanded(function)

    @functools.wraps(command)
    def run(**values: Any) -> None:
        if os.environ.get("VEILFLOW_TRACEBACK"):
            return command(**values)
        _has_result.set(False)
        try:
            with _warnings_as_notes():
                return command(**values)
        except (BrokenPipeError, typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            code, kind, message = 130, "interrupted", _interrupted(values)
        except (ValueError, TypeError) as error:
            foreign = _is_foreign(error)
            code, kind, message = 2, "usage", str(error)
            if foreign:
                code, kind, message = 1, "unexpected", _unexpected(error)
        except VeilflowError as error:
            code, message = 1, str(error)
            kind = type(error).__name__.removesuffix("Error").lower()
        except ImportError as error:  # an extra is not installed
            code, kind, message = 1, "missing", str(error)
        except OSError as error:
            code, kind, message = 1, "file", _file_problem(error)
        except MemoryError:
            code, kind = 1, "memory"
            message = "not enough memory. Use fewer rows, or a smaller batch_size."
        except Exception as error:
            code, kind, message = 1, "unexpected", _unexpected(error)
        message = in_flags(message, command)
        _say(f"error: {message}", style="bold red")
        if values.get("as_json") and not _has_result.get():
            emit({"error": safe(message), "kind": kind}, as_json=True)
        raise typer.Exit(code)

    return run


def _interrupted(values: Mapping[str, Any]) -> str:
    """What an interrupt means for a command with these flags."""
    message = "interrupted. No result was written."
    if "checkpoint" not in values:
        return message
    checkpoint = values["checkpoint"]
    if checkpoint is None:
        return (
            f"{message} Nothing of the fit was kept, and what it had released counts as spent. With "
            "--checkpoint FILE, a fit can be resumed."
        )
    if not checkpoint.exists():
        return f"{message} There is no checkpoint yet: start again."
    return f"{message} The same command resumes from {checkpoint}, and pays for nothing twice."


def in_flags(message: str, command: Callable[..., Any]) -> str:
    """A message with `--invalid skip` for `invalid='skip'`, where the command has this flag."""
    kinds = get_type_hints(command, include_extras=True)

    def flag(argument: re.Match[str]) -> str:
        name, word = argument.groups()
        if any(isinstance(one, OptionInfo) for one in getattr(kinds.get(name), "__metadata__", ())):
            return f"--{name.replace('_', '-')}{f' {word}' if word else ''}"
        return f"{argument[0]} (in Python)" if name in _ONLY_PYTHON else argument[0]

    return _ARGUMENT.sub(flag, message)


def note(message: str) -> None:
    """One line for the person at the keyboard, out of the way of results."""
    _say(message, style="yellow")


def emit(result: Mapping[str, Any], *parts: Any, as_json: bool) -> None:
    """Print a command's result: one JSON object, or texts and tables for people."""
    _has_result.set(True)
    for part in [json.dumps(plain(result), allow_nan=False)] if as_json else parts:
        if isinstance(part, str):
            typer.echo(part)
        else:
            from rich.console import Console

            Console(soft_wrap=True, markup=False, highlight=False).print(part)


def tell(
    result: Mapping[str, Any],
    text: str,
    guarantee: "Guarantee",
    *,
    as_json: bool,
    whose: str = "",
) -> None:
    """Print a result and, last, the guarantee that it comes with."""
    result = {**result, "guarantee": guarantee.to_json()}
    emit(result, text, whose + statement(guarantee), as_json=as_json)


def unprotected(what: str, *, whose: str = "model") -> dict[str, Any]:
    """Warn that the guarantee does not cover what is computed from rows; returns this for JSON."""
    warning = f"{what}: the {whose}'s guarantee does not cover them"
    note(f"warning: {warning}.")
    return {"protected": False, "warning": warning}


def plain(value: Any) -> Any:
    """JSON values only; infinity becomes the word "inf", as in a guarantee."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return str(value) if isinstance(value, Path) else value


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()
) -> Any:
    """A table for people.

    Args:
        heads: The headings of the columns.
        rows: The cells of each row; safe to print.
        numbers: The headings of columns that are aligned to the right.
    """
    from rich.table import Table

    lines = Table(box=None, header_style="bold")
    for head in heads:
        lines.add_column(head, justify="right" if head in numbers else "left")
    for row in rows:
        lines.add_row(*row)
    return lines


def claim(guarantee: "Guarantee") -> str:
    """The numbers of a guarantee, its unit and accountant; never printed alone as a promise."""
    return safe(str(dataclasses.replace(guarantee, assumptions=())))


def statement(guarantee: "Guarantee") -> str:
    """A guarantee for people: the claim and, one line each, its assumptions."""
    lines = (f"  assuming: {safe(one.sentence)}" for one in guarantee.assumptions)
    return "\n".join([claim(guarantee), *lines])


def safe(text: str) -> str:
    """Text from a file without control characters, which could rewrite what a terminal shows."""
    return "".join(c if c.isprintable() else "?" for c in text)


def check_out(out: Path, *, force: bool, inputs: tuple[Path, ...] = ()) -> None:
    """Raise unless `out` can be written without losing anything; called before any work."""
    if out.exists():
        if any(path.exists() and out.samefile(path) for path in inputs):
            raise ValueError(f"--out {out} is the file that is read. Choose another name.")
        if not out.is_file():
            raise ValueError(f"--out {out} is not a file. Choose another name.")
        if not force:
            raise ValueError(
                f"--out {out} exists. Choose another name, or pass --force to replace it. Nothing "
                "was done."
            )
    _check_parent(out)


def check_folder(out: Path) -> None:
    """The same for a folder: it must not exist, or be empty and not the current one."""
    if out.exists():
        if not out.is_dir() or out.samefile("."):
            raise ValueError(f"--out {out} is not a new folder. Choose another name.")
        if any(out.iterdir()):
            raise ValueError(
                f"--out {out} is a folder with something in it, which nothing replaces. Choose "
                "another name."
            )
    _check_parent(out)


def _check_parent(out: Path) -> None:
    folder = out.resolve().parent
    if not folder.is_dir():
        raise ValueError(f"the folder of --out {out} does not exist. Create it first.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"the folder of --out {out} may not be written to. Choose another.")


@contextlib.contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Warnings of the library as one-line notes, without the file and line they come from."""

    def show(message: Any, *_: Any, **__: Any) -> None:
        note(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _is_foreign(error: Exception) -> bool:
    """Whether the message of an error comes from another library, and may quote a record."""
    ours = type(error).__module__.split(".")[0] in ("builtins", "veilflow")
    return not ours or isinstance(error, UnicodeError)


def _unexpected(error: Exception) -> str:
    return (
        f"something went wrong that veilflow does not expect ({type(error).__name__}). What it says is "
        "not shown, because it may quote a record: set VEILFLOW_TRACEBACK=1 to see it, and please "
        "report it."
    )


def _file_problem(error: OSError) -> str:
    if error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror.lower()}."
    return str(error) or type(error).__name__


def _say(message: str, *, style: str) -> None:
    from rich.console import Console
    from rich.text import Text

    line = safe(message.replace("\n", " "))
    Console(stderr=True, soft_wrap=True).print(Text(line, style=style))
