"""Damage done to files: bytes, JSON documents and what stands in containers.

A plain mutational fuzzer. Its moves are those that break parsers: bits, cut ends, repeated pieces,
numbers at the ends of their range, words that mean something to some reader.
"""

import io
import json
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any

Damage = Callable[[bytes, random.Random], bytes]

_SIZES = (0, 1, 2, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40)
_SIZES += (2**60, 2**63 - 1, 2**63, 2**64 - 1)
_WORDS = (
    b"../",
    b"..\\",
    b"/etc/passwd",
    b"../bait",
    b"\x00",
    b"\n",
    b"\r\n",
    b'"',
    b"'",
    b",",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x92\xa9",
    b"NaN",
    b"Infinity",
    b"-1e999",
    b"1e999",
    b"9" * 400,
    b"-0",
    b"null",
    b"true",
    b"[" * 300,
    b'{"a":' * 300,
    b"%s%n",
    b"__class__",
    b"cos\nsystem\n(S'true'\ntR.",
    b"PK\x05\x06",
    b"\x1f\x8b",
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    10**6,
    10**9,
    2**31,
    2**63,
    10**30,
    10**400,
    0.0,
    -0.0,
    0.5,
    1e-300,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    "",
    "inf",
    "nan",
    "../bait",
    "/etc/passwd",
    "x" * 5000,
    "\ud800",
    "\x00",
    "__import__('os').system('true')",
    [],
    {},
    [[]],
    [None],
    {"a": 1},
    [0] * 100,
)


def of_bytes(data: bytes, rng: random.Random) -> bytes:
    """One to four moves on the bytes."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choice(_MOVES)(damaged, rng)
    return bytes(damaged)


def _flip(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _byte(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.randrange(256)


def _number(data: bytearray, rng: random.Random) -> None:
    width, letter = rng.choice(((1, "B"), (2, "H"), (4, "I"), (8, "Q")))
    if len(data) >= width:
        # headers stand at the ends of files
        place = rng.choice(
            (rng.randrange(len(data) - width + 1), rng.randrange(min(64, len(data))))
        )
        place = min(place, len(data) - width)
        value = rng.choice(_SIZES) % 2 ** (8 * width)
        struct.pack_into(rng.choice("<>") + letter, data, place, value)


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _remove(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    del data[start : start + rng.choice((1, 2, 8, 64))]


def _repeat(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    piece = bytes(data[start : start + rng.choice((1, 8, 64))])
    data[start:start] = piece * rng.choice((1, 2, 50))


def _insert(data: bytearray, rng: random.Random) -> None:
    place = rng.randrange(len(data) + 1)
    data[place:place] = rng.choice(_WORDS)


def _replace(data: bytearray, rng: random.Random) -> None:
    word, place = rng.choice(_WORDS), rng.randrange(len(data) + 1)
    data[place : place + len(word)] = word


def _swap(data: bytearray, rng: random.Random) -> None:
    middle = rng.randrange(len(data) + 1)
    data[:] = data[middle:] + data[:middle]


_MOVES = (_flip, _flip, _byte, _number, _number, _cut, _remove, _repeat, _insert, _replace, _swap)


def of_json(data: bytes, rng: random.Random) -> bytes:
    """Another document of nearly the same shape; sometimes damaged bytes instead."""
    if rng.random() < 0.2:
        return of_bytes(data, rng)
    document = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        document = of_value(document, rng)
    return json.dumps(document).encode()


def of_value(value: Any, rng: random.Random) -> Any:
    """The same value with one part changed, removed, added or moved."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        changed, name = dict(value), rng.choice(list(value))
        move = rng.random()
        if move < 0.08:
            del changed[name]
        elif move < 0.14:
            changed[rng.choice(("", "extra", "kind", "__proto__", "x" * 300))] = rng.choice(_VALUES)
        elif move < 0.2:
            changed[name] = changed[rng.choice(list(value))]
        else:
            changed[name] = of_value(value[name], rng)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.85:
        changed, place = list(value), rng.randrange(len(value))
        move = rng.random()
        if move < 0.1:
            del changed[place]
        elif move < 0.2:
            changed.insert(place, rng.choice((rng.choice(_VALUES), changed[place])))
        else:
            changed[place] = of_value(value[place], rng)
        return changed
    if rng.random() < 0.1:
        return _deep(value, rng.choice((5, 50, 400)))
    if _is_number(value) and rng.random() < 0.4:
        return rng.choice((-value, value + 1, value * 1000, value * 0.3, str(value)))
    return rng.choice(_VALUES)


def _is_number(value: Any) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**300
    return whole or isinstance(value, float)


def _deep(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def of_members(damage: dict[str, Damage]) -> Damage:
    """Damage to one file within a zip file, whose checksums are then right again.

    Args:
        damage: What is done to a member by the end of its name; to others it is done to their bytes.
    """

    def change(data: bytes, rng: random.Random) -> bytes:
        if rng.random() < 0.1:
            return of_bytes(data, rng)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        chosen = rng.choice(list(members))
        how = next((d for end, d in damage.items() if chosen.endswith(end)), of_bytes)
        members[chosen] = how(members[chosen], rng)
        names = {name: name for name in members}
        if rng.random() < 0.05:
            names[chosen] = rng.choice(("../bait", "/etc/passwd", chosen + "\0", "a/" * 200, "/"))
        packing = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w", packing) as archive:
            for name, member in members.items():
                archive.writestr(names[name], member)
        return made.getvalue()

    return change


def of_safetensors(data: bytes, rng: random.Random) -> bytes:
    """Damage to the header as a document, or to the bytes."""
    size = int.from_bytes(data[:8], "little")
    if rng.random() < 0.3 or not 0 < size <= len(data) - 8:
        return of_bytes(data, rng)
    header = of_json(data[8 : 8 + size], rng)
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


_TOML = ("1", "-1", "0", "1e400", "nan", "-inf", "true", '"text"', "[]", "[[1, 2], 3]", "{}")
_TOML += (
    "1979-05-27",
    "1979-05-27T07:32:00Z",
    "07:32:00",
    "9" * 400,
    "{ missing = true }",
    '"../bait"',
)
_TOML += ("9" * 5000, "[" * 2000 + "]" * 2000)


def of_toml(data: bytes, rng: random.Random) -> bytes:
    """One or two values exchanged, lines moved or repeated; or damaged bytes."""
    if rng.random() < 0.4:
        return of_bytes(data, rng)
    lines = data.decode().split("\n")
    for _ in range(rng.choice((1, 2))):
        place = rng.randrange(len(lines))
        name, equals, _ = lines[place].partition(" = ")
        if equals and rng.random() < 0.7:
            lines[place] = f"{name} = {rng.choice(_TOML)}"
        else:
            lines.insert(rng.randrange(len(lines)), lines[place])
    return "\n".join(lines).encode()


def either(*ways: Damage) -> Damage:
    """One of several."""
    return lambda data, rng: rng.choice(ways)(data, rng)
