"""Hints of the library in the words of the command line: flags, where Python has arguments."""

import re
from collections.abc import Callable
from typing import Any, get_type_hints

from typer.models import OptionInfo

_VALUE = r"""['"]([\w-]+)['"]|True|\.\.\.|(?=[.,;) ]|$)"""
_SAID_ALREADY = r"(?: \(--[^()]+\))?"
_ARGUMENT = re.compile(rf"\b([a-z_]+)=(?:{_VALUE}){_SAID_ALREADY}")
# how images are read; a command without such a flag should not send anybody to look for it
_ONLY_PYTHON = ("size", "color", "layout", "invalid", "labels")


def in_flags(message: str, command: Callable[..., Any]) -> str:
    """A message with `--invalid skip` for `invalid='skip'`, where the command has this flag."""
    kinds = get_type_hints(command, include_extras=True)

    def flag(found: re.Match[str]) -> str:
        name, word = found.groups()
        if any(isinstance(one, OptionInfo) for one in getattr(kinds.get(name), "__metadata__", ())):
            return f"--{name.replace('_', '-')}{f' {word}' if word else ''}"
        return f"{found[0]} (in Python)" if name in _ONLY_PYTHON else found[0]

    return _ARGUMENT.sub(flag, message)
