"""TOML files; errors name a position, because the messages of the parser quote the text."""

import re
import tomllib
from typing import Any


def parse(data: bytes | str) -> dict[str, Any]:
    """The document in a string, or in the bytes of a file.

    Raises:
        ValueError: It is not UTF-8 or not TOML; the message quotes nothing of it.
    """
    try:
        return tomllib.loads(data if isinstance(data, str) else data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text. Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at .*\)$", str(error))
        raise ValueError(f"it is not valid TOML{f' {place[0]}' if place else ''}.") from None
    except RecursionError:
        raise ValueError("it is not valid TOML: it is nested too deeply.") from None
