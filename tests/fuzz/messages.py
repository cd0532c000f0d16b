"""Random requests of every kind that a listener serves, drawn from the message schemas and a seed.

A field is now and then a number or name that exists, an extreme of its type, or anything: mostly the first, so that
requests get far. What would do harm by right (delete the witness's topic, take a living broker out of the cluster, lead
the quorum's epoch to its last number) is not drawn. Read next: ``frames.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from moldau.wire.apis import APIS
from moldau.wire.batch import build
from moldau.wire.schema import FIXED, Field, Message, Struct

BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "uint16": 16, "uint32": 32}
TEXTS = ("", "a", "fuzz-plain", "fuzz-compact", "é\u4e2d", "\x00", "..", "a/b", "x" * 249, "x" * 300, "y" * 40_000)
FAR = 1_000_000
"""How far from the present an epoch of the quorum may be drawn: a true one beyond any number would hold for ever."""
DEEP = 3

Facts = Mapping[str, Any]


def message(rng: Random, key: int, version: int, facts: Facts) -> Message:
    """A request of one version, every field drawn."""
    found = _struct(rng, APIS[key].request, version, facts, 0)
    assert isinstance(found, Message)
    return found


def _struct(rng: Random, cls: type[Struct], version: int, facts: Facts, depth: int) -> Struct:
    values = {f.name: _field(rng, f, version, facts, depth) for f in cls.fields if f.present(version)}
    return cls(**values)


def _field(rng: Random, field: Field, version: int, facts: Facts, depth: int) -> Any:
    if field.is_nullable(version) and rng.random() < 0.1:
        return None
    known = facts.get(field.name)
    if known == []:  # nothing of that may be drawn
        return []
    if known is not None and rng.random() < 0.6:
        value = rng.choice(known)
        if field.element is not None and not isinstance(field.element, type):
            return [value] * rng.choice((1, 1, 2))
        if field.element is None and not isinstance(field.type, type):
            return value
    if field.element is not None:
        count = rng.choice((0, 1, 1, 2, 3)) if depth < DEEP else rng.choice((0, 1))
        if rng.random() < 0.01 and not isinstance(field.element, type):
            count = 5_000
        return [_one(rng, field, field.element, version, facts, depth) for _ in range(count)]
    return _one(rng, field, field.type, version, facts, depth)


def _one(rng: Random, field: Field, kind: Any, version: int, facts: Facts, depth: int) -> Any:
    if isinstance(kind, type):
        return _struct(rng, kind, version, facts, depth + 1)
    if kind in BITS:
        return number(rng, kind)
    if kind in FIXED:
        return {"bool": rng.random() < 0.5, "uuid": rng.choice((bytes(16), rng.randbytes(16)))}.get(kind, rng.random())
    if kind == "string":
        return rng.choice(TEXTS)
    if kind == "records":
        return build([(rng.choice((0, 1_700_000_000_000, -1)), b"k", rng.randbytes(rng.choice((0, 9, 999))), [])])
    return rng.randbytes(rng.choice((0, 1, 20, 2_000)))


def number(rng: Random, kind: str) -> int:
    """A number of a type: near zero, at an end of its range, or anywhere in it."""
    bits = BITS[kind]
    low = 0 if kind.startswith("u") else -(1 << bits)
    high = (1 << bits) - 1
    near = rng.randrange(-2, 4)
    return rng.choice((max(near, low), max(near, low), low, high, rng.randint(low, high)))


def mutated(rng: Random, frame: bytes) -> bytes:
    """A frame with bytes changed, cut out, put in, or its end missing; its size says what it is, mostly."""
    body = bytearray(frame[4:])
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(body) + 1)
        what = rng.randrange(4)
        if what == 0 and at < len(body):
            body[at] = rng.choice((0, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif what == 1:
            del body[at : at + rng.randrange(1, 9)]
        elif what == 2:
            body[at:at] = rng.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", rng.randbytes(5)))
        else:
            del body[at:]
    size = len(body) if rng.random() < 0.9 else rng.choice((-1, 0, len(body) + 1, 1 << 20, (1 << 31) - 1))
    return size.to_bytes(4, "big", signed=True) + bytes(body)
