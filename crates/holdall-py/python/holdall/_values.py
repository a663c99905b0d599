"""Attribute values without an equivalent in Python."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Tag", "Simple"]


class Tag(NamedTuple):
    """A CBOR value with a tag. The tag is not interpreted."""

    number: int
    value: Any


class Simple(NamedTuple):
    """A CBOR simple value without a name; number 23 is CBOR's *undefined*."""

    number: int
