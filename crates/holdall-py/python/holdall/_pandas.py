"""Records as a pandas ``DataFrame`` with a column for each member."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from . import _holdall
from ._arrow import Arrow, _field
from ._arrow_types import dictionary
from ._kinds import _element, ndarray, written
from ._records import bits
from .errors import MissingPackageError

if TYPE_CHECKING:
    import pandas as pd

    from ._records import Records, Selection


def frame(all: Records, of: Records | Selection, paths: Sequence[str] = ()) -> pd.DataFrame:
    """Returns the members of ``of``, which is ``all`` or a selection of it, or those at ``paths``, as a frame."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingPackageError(
            "pandas is not installed", code="python/extra", kind="unsupported", hint="pip install pandas; or column(path)"
        ) from None
    row = all._types.rows[all._types.root]
    if paths:
        members = [(path, path, at, not always) for path in paths for at, _, always in [all._find(path)]]
    elif row.kind == "struct":
        members = [(name, written(name), at, maybe) for name, at, _, maybe in row.more]
    else:
        return pd.DataFrame({all.tensor.name: _objects(of.values(""))})
    nodes = _nodes(all)
    given = _given(of, {name for name, *_ in members if _is_other_type(nodes.get(name))}, paths)
    wanted = {name: path for name, path, at, maybe in members if name not in given and _is_gathered(all, at, maybe)}
    made = dict(zip(wanted, all._native.gather(list(wanted.values()), of._picked())))
    columns = {}
    for name, path, at, maybe in members:
        if name in given:
            columns[name] = given[name]
        elif name in made:
            columns[name] = _column(pd, all, at, maybe, made[name], len(of), nodes.get(name))
        elif all._types.rows[at].kind == "string":
            columns[name] = pd.array(of.texts(path), dtype="string")
        else:
            columns[name] = _other(all, of, path, at, maybe)
    # Copied, since the caller may write to the frame.
    return pd.DataFrame(columns, index=pd.RangeIndex(len(of)), copy=False)


#: pandas' types for elements that may be absent, by NumPy's kind letters.
_MASKED = {"i": "IntegerArray", "u": "IntegerArray", "f": "FloatingArray", "b": "BooleanArray"}
#: Prefixes of the names of element types that pandas supports as columns.
_SIZED = ("int", "uint", "float", "bool", "complex", "datetime")


def _is_gathered(all: Records, at: int, maybe: bool) -> bool:
    """Returns whether a column can be taken as a whole, without an object for each record."""
    row = all._types.rows[at]
    if row.kind == "string":
        return find_spec("pyarrow") is not None
    if row.kind != "scalar":
        return row.kind == "enum"
    # Except those that ml_dtypes adds.
    is_known = row.more.startswith(_SIZED) and not row.more.startswith("float8")
    return is_known and not (maybe and (row.more == "float16" or row.more.startswith("complex")))


def _nodes(all: Records) -> dict[str, Any]:
    """Returns the schemas of the members, if a table's types are in them."""
    if '"arrow.' not in all.tensor.attributes["metatensor.kind"]:
        return {}
    nodes = all.schema.get("properties")
    return nodes if isinstance(nodes, dict) else {}


#: Types of Arrow that change nothing about a column of pandas: forms of texts and bytes, and nanoseconds without a zone.
_SAME_TYPES = re.compile(r"v?[uz]|w:\d+|tsn:")


def _is_other_type(node: Any) -> bool:
    """Returns whether a column was given in a type of Arrow that its member does not have, such as a decimal."""
    if not isinstance(node, dict):
        return False
    stated = {key: value for key, value in node.items() if key.startswith("arrow.") and key != "arrow.nullable"}
    if "enum" in node:
        # Categories.
        return "arrow.extension" in stated
    kind = stated.get("arrow.type")
    if isinstance(kind, str) and _SAME_TYPES.fullmatch(kind):
        del stated["arrow.type"]
    return bool(stated) or any(_is_other_type(below) for below in _below(node))


def _below(node: dict[str, Any]) -> Iterator[Any]:
    yield node.get("items")
    properties = node.get("properties")
    yield from properties.values() if isinstance(properties, dict) else ()


def _given(of: Records | Selection, names: set[str], paths: Sequence[str]) -> dict[str, Any]:
    """Returns columns in the types that they were given in, which pyarrow converts to those of pandas."""
    if not names or find_spec("pyarrow") is None:
        return {}
    import pyarrow as pa

    arrow = Arrow(of, paths)
    arrow._columns = [column for column in arrow._columns if column[0] in names]
    frame = pa.table(arrow).to_pandas()
    # Copied, since pyarrow may lend its own memory.
    return {name: frame[name].array.copy() for name in names}


def _column(pd: Any, all: Records, at: int, maybe: bool, made: _holdall.Column, count: int, node: Any) -> Any:
    import numpy as np

    row = all._types.rows[at]
    if row.kind == "string":
        import pyarrow as pa

        # Strings as Arrow stores them, without an object for each.
        return pd.array(pa.chunked_array([pa.array(_Given(all, at, made))]), dtype="string")
    data, there = made.numbers()
    memory: Any = data
    absent = ~bits(there, count) if maybe else None
    if row.kind == "enum":
        places = np.ndarray(count, f"<u{row.more[0]}", memory)
        codes = places.astype(np.min_scalar_type(-len(row.more[1]) - 1))
        if absent is not None:
            codes[absent] = -1
        _, is_ordered = dictionary(node) or ("", False)
        return pd.Categorical.from_codes(codes, categories=list(row.more[1]), ordered=is_ordered)
    values = bits(data, count) if row.more == "bool" else np.ndarray(count, _element(row.more), memory)
    if absent is None:
        return values
    if values.dtype.kind == "M":
        values[absent] = np.datetime64("NaT")
        return values
    return getattr(pd.arrays, _MASKED[values.dtype.kind])(values, absent)


def _other(all: Records, of: Records | Selection, path: str, at: int, maybe: bool) -> Any:
    """Returns a member that pandas has no type for as objects, which are made from a whole column if possible."""
    row = all._types.rows[at]
    if row.kind == "bytes":
        return _objects(all._native.texts(path, of._picked()))
    items = row.more[0] if row.kind == "array" and row.more[1] is None and not maybe else None
    if items is not None and all._types.rows[items].kind == "scalar" and all._types.rows[items].more != "bool":
        import numpy as np

        data, offset_bytes = all._native.ragged(path, of._picked())
        buffer: Any = offset_bytes
        dtype = _element(all._types.rows[items].more)
        offsets = np.frombuffer(buffer, "<i8").tolist()
        # The arrays are parts of one array, which belongs to the frame.
        values = ndarray((offsets[-1],), dtype, data, 0, (dtype.itemsize,)).copy()
        return _objects([values[start:end] for start, end in zip(offsets, offsets[1:])])
    return _objects(of.values(path))


class _Given:
    """A gathered column, for consumers of Arrow arrays."""

    def __init__(self, all: Records, at: int, made: _holdall.Column) -> None:
        self._field = _field(all._types, at, "", True)
        self._made = made

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return _holdall.arrow_array(self._field, self._made)


def _objects(values: list[Any]) -> Any:
    import numpy as np

    # One by one, since NumPy would turn lists and arrays into further dimensions.
    out = np.empty(len(values), object)
    for at, value in enumerate(values):
        out[at] = value
    return out
