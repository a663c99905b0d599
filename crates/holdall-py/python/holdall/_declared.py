"""Checks of the arguments that describe a package, before they are passed to the native half."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from ._carton_arrays import TYPES
from ._carton_types import Shape, Spec
from .errors import FormatWarning, UsageError

#: The largest integer that ``carton.toml`` can hold.
LARGEST = 2**63 - 1


def specs(of: Iterable[Any] | None, side: str) -> list[tuple[Any, ...]] | None:
    """Converts declared inputs or outputs: ``side`` is ``"input"`` or ``"output"``.

    Raises:
        TypeError: an item is not a :class:`Spec`, or a field has a wrong type.
        UsageError: a name, an element type, a size or a symbol is not valid in a package.
    """
    if of is None:
        return None
    if isinstance(of, (str, bytes, Mapping, Spec)) or not isinstance(of, Iterable):
        raise TypeError(f"{side}s must be a list of Spec, or of tuples (name, dtype, shape), not {type(of).__name__}")
    return [_spec(spec, f"{side} {at}") for at, spec in enumerate(of)]


def _spec(of: Any, what: str) -> tuple[Any, ...]:
    if isinstance(of, Mapping):
        unknown = [name for name in of if name not in Spec._fields]
        if unknown or not {"name", "dtype"} <= set(of):
            raise TypeError(f"{what} has the fields {', '.join(Spec._fields)} of Spec; name and dtype are needed")
        of = Spec(**of)
    if not isinstance(of, (tuple, list)) or not 2 <= len(of) <= len(Spec._fields):
        raise TypeError(f"{what} must be a Spec, or a tuple (name, dtype, shape)")
    spec = Spec(*of)
    name = text(spec.name, f"the name of {what}")
    if not name:
        raise _misuse("python/option", f"the name of {what} is empty")
    what = f"{what} {name!r}"
    described = optional(spec.description, f"the description of {what}")
    internal = optional(spec.internal_name, f"internal_name of {what}")
    return name, _dtype(spec.dtype, what), _shape(spec.shape, what), described, internal


def _dtype(of: Any, what: str) -> str:
    """Returns the name of an element type, which may be given as a name, a NumPy dtype or a NumPy scalar type."""
    name = of
    if not isinstance(of, str):
        import numpy as np

        if not isinstance(of, np.dtype) and not (isinstance(of, type) and issubclass(of, (np.generic, str))):
            raise TypeError(f'the dtype of {what} must be a name such as "float32", or NumPy\'s, not {of!r}')
        found: np.dtype[Any] = np.dtype(of)
        name = "string" if found.kind in "UT" else found.name
    if name in TYPES:
        return str(name)
    known = ", ".join(sorted(TYPES))
    raise _misuse("python/dtype", f"{what} is of {name!r}, which packages do not have", hint=f"there are {known}")


def _shape(of: Any, what: str) -> Shape:
    if of is None:
        return "*"
    if isinstance(of, str):
        return _symbol(of, f"the shape of {what}")
    if isinstance(of, (bytes, bytearray, Mapping, set, frozenset)) or not isinstance(of, Iterable):
        hint = f"; one dimension is ({of!r},), with a comma" if isinstance(of, int) and of > 1 else ""
        raise TypeError(f"the shape of {what} must be a tuple of sizes and symbols, not {type(of).__name__}{hint}")
    return tuple(_dimension(size, f"dimension {at} of {what}") for at, size in enumerate(of))


def _dimension(of: Any, what: str) -> int | str:
    if of is None:
        return "*"
    if isinstance(of, str):
        return _symbol(of, what)
    refused = TypeError(f"{what} must be a size, a symbol or None, not {of!r}")
    if isinstance(of, bool):
        raise refused
    try:
        size = operator.index(of)
    except TypeError:
        raise refused from None
    if 0 <= size <= LARGEST:
        return size
    hint = 'None or "*" is any size' if size < 0 else None
    raise _misuse("python/shape", f"{what} is {size}; a size lies in 0..2**63", hint=hint)


def _symbol(of: str, what: str) -> str:
    if not of or any(c.isspace() or c == "\0" for c in of):
        raise _misuse("python/shape", f"{what} is {of!r}; a symbol is a text without spaces, and not empty")
    return text(of, what)


def lone_symbols(*sides: list[tuple[Any, ...]] | None) -> list[FormatWarning]:
    """Warns if a symbol is the whole shape of a single input or output: probably a dimension without its comma."""
    declared = [spec for side in sides for spec in side or ()]
    shapes = [shape for _, _, shape, _, _ in declared]
    return [
        FormatWarning(
            "python/symbol",
            f"{shape!r} is a symbol for all of the shape, and so for any; one dimension is ({shape!r},), with a comma",
            name,
            None,
            1,
        )
        for name, _, shape, _, _ in declared
        if isinstance(shape, str) and shape != "*" and shapes.count(shape) == 1
    ]


def options(of: Any) -> dict[str, Any] | None:
    """Checks options of a runner: numbers, strings and bools by name.

    Raises:
        TypeError: ``of`` is not a mapping, or a name is not a string.
        UsageError: a value has another type, or an integer does not fit 64 bits.
    """
    if of is None:
        return None
    out = {}
    for name, value in mapping(of, "options").items():
        what = f"the option {text(name, 'the name of an option')!r}"
        if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
            raise _misuse("python/option", f"{what} is an integer beyond 64 bits")
        out[name] = text(value, what) if isinstance(value, str) else value
    return out


def tolerance(of: Any, what: str) -> float:
    """Checks a tolerance of a self-test, which must not be negative."""
    if isinstance(of, (bool, str)) or not hasattr(of, "__float__"):
        raise TypeError(f"{what} must be a number, not {type(of).__name__}")
    x = float(of)
    if not x >= 0:
        raise _misuse("python/option", f"{what} is {x}; expected a non-negative number")
    return x


def links(of: Any) -> list[tuple[str, str]]:
    """Returns pairs of a path in a package and an address, from a mapping of paths to one or several addresses."""
    pairs = []
    for path, urls in mapping({} if of is None else of, "links", "paths to addresses").items():
        where = text(path, "a path in links")
        if isinstance(urls, (bytes, Mapping)) or not isinstance(urls, Iterable):
            raise TypeError(f"links[{where!r}] is an address, or a list of them, not {type(urls).__name__}")
        each = [urls] if isinstance(urls, str) else urls
        pairs += [(where, text(url, f"an address in links[{where!r}]")) for url in each]
    return pairs


def count(of: Any, what: str) -> int:
    """Checks a number of bytes."""
    try:
        n = operator.index(of)
    except TypeError:
        n = None
    if n is None or isinstance(of, bool):
        raise TypeError(f"{what} must be a number of bytes, not {of!r}")
    if not 0 <= n < 2**64:
        raise _misuse("python/option", f"{what} is {n}; it is a number of bytes, from 0 on")
    return n


def mapping(of: Any, what: str, how: str = "names") -> Mapping[Any, Any]:
    """Returns ``of`` if it is a mapping, and raises otherwise."""
    if not isinstance(of, Mapping):
        raise TypeError(f"{what} must be a mapping of {how}, not {type(of).__name__}")
    return of


def text(of: object, what: str) -> str:
    """Returns ``of`` if it is a string.

    Raises:
        TypeError: it is not a string.
        UnicodeEncodeError: it has half of a surrogate pair.
    """
    if not isinstance(of, str):
        raise TypeError(f"{what} must be a string, not {type(of).__name__}")
    try:
        of.encode()
    except UnicodeEncodeError as e:
        raise UnicodeEncodeError(e.encoding, of, e.start, e.end, f"{what} is not Unicode, {e.reason}") from None
    return of


def optional(of: object, what: str) -> str | None:
    """Returns ``of`` if it is a string or ``None``."""
    return None if of is None else text(of, what)


def texts(of: Any, what: str) -> list[str] | None:
    """Checks a list of strings, or ``None``."""
    if of is None:
        return None
    if isinstance(of, (str, bytes)) or not isinstance(of, Iterable):
        raise TypeError(f"{what} must be a list of texts, not {'one text' if isinstance(of, str) else type(of).__name__}")
    return [text(each, f"one of {what}") for each in of]


def _misuse(code: str, message: str, hint: str | None = None) -> UsageError:
    return UsageError(message, code=code, kind="misuse", hint=hint)
