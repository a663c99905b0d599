"""Structured arrays to be written, as datasets of records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _holdall
from ._arrays import CHUNK
from ._encode import DESCR, FIELDS, SHAPE, fields
from ._kinds import Types, named
from .errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np

#: Kind and JSON type by the element types that records support.
NUMBERS = {
    "int8": ("Int8", "integer"),
    "int16": ("Int16", "integer"),
    "int32": ("Int32", "integer"),
    "int64": ("Int64", "integer"),
    "uint8": ("Uint8", "integer"),
    "uint16": ("Uint16", "integer"),
    "uint32": ("Uint32", "integer"),
    "uint64": ("Uint64", "integer"),
    "float16": ("Float16", "number"),
    "float32": ("Float32", "number"),
    "float64": ("Float64", "number"),
    "bfloat16": ("BFloat16", "number"),
    "float8_e4m3fn": ("Float8E4M3", "number"),
    "float8_e5m2": ("Float8E5M2", "number"),
    "complex64": ("Complex64", "array"),
    "complex128": ("Complex128", "array"),
    "bool": ("Boolean", "boolean"),
    "datetime64[ns]": ("Timestamp", "string"),
}


def is_structured(value: Any) -> bool:
    """Returns whether it is a structured array."""
    dtype = getattr(value, "dtype", None)
    return getattr(dtype, "names", None) is not None and hasattr(value, "__array__")


class Rows:
    """A structured array about to be written."""

    #: The element type in the file.
    dtype = "uint8"
    identity = None
    lent = None

    def __init__(self, value: Any, name: str) -> None:
        import numpy as np

        given: np.ndarray[Any, Any] = np.asarray(value)
        if isinstance(value, np.ma.MaskedArray):
            raise _unsuitable(name, "a masked array, which is two tensors")
        #: Attributes for the properties that the schema of a record does not state: the shape and field order.
        self.attributes: dict[str, Any] = {} if given.ndim == 1 else {SHAPE: list(given.shape)}
        self.array: np.ndarray[Any, Any] = given.reshape(-1)
        schema, _ = _struct(self.array.dtype, name, "")
        #: The schema of the records as JSON text.
        self.kind = json.dumps(schema, ensure_ascii=False)
        self._file_dtype = Types(_holdall.record_types(self.kind)).dtype()
        # Byte order is not kept.
        own = given.dtype.newbyteorder("<")
        if not _is_same(named(self._file_dtype, schema), own):
            self.attributes[FIELDS] = fields(own)
        self.nbytes = len(self.array) * self._file_dtype.itemsize

    def chunks(self) -> Iterator[Any]:
        """Yields the bytes of the records in chunks: padding is zero, booleans are 0 or 1."""
        import numpy as np

        dtype = self._file_dtype
        as_it_is = _is_same(dtype, self.array.dtype) and _is_packed(dtype) and not _has_bools(dtype)
        every = max(1, CHUNK // dtype.itemsize)
        for start in range(0, len(self.array), every):
            part = self.array[start : start + every]
            if not (as_it_is and part.flags.c_contiguous):
                out = np.zeros(len(part), dtype)
                _fill(out, part)
                part = out
            yield part.view(np.uint8)


def _fill(to: np.ndarray[Any, Any], of: np.ndarray[Any, Any]) -> None:
    """Copies member by member and leaves the bytes between members unchanged."""
    import numpy as np

    for name in to.dtype.names or ():
        if to[name].dtype.names:
            _fill(to[name], of[name])
        elif to[name].dtype == np.bool_ and of[name].dtype == np.bool_:
            # Every nonzero byte becomes 1.
            to[name] = of[name].view(np.uint8) != 0
        elif of[name].dtype.kind in "SU" or of[name].dtype.type is np.void:
            # The characters, or bytes.
            unit = to[name].dtype
            texts = np.ascontiguousarray(of[name], of[name].dtype.newbyteorder("<"))
            to[name] = texts.reshape(-1).view(unit).reshape(to[name].shape)
        elif of[name].dtype.kind in "mM" and to[name].dtype.kind not in "mM":
            to[name] = of[name].astype(of[name].dtype.newbyteorder("<"), copy=False).view("<i8")
        else:
            to[name] = of[name]


def _is_same(a: np.dtype[Any], b: np.dtype[Any]) -> bool:
    """Returns whether two dtypes are equal, with equal titles and offsets."""
    if a != b or a.itemsize != b.itemsize or a.names != b.names:
        return False
    if a.subdtype is not None and b.subdtype is not None:
        return _is_same(a.subdtype[0], b.subdtype[0])
    if a.fields is None or b.fields is None:
        return True
    return set(a.fields) == set(b.fields) and all(
        a.fields[name][1:] == b.fields[name][1:] and _is_same(a.fields[name][0], b.fields[name][0]) for name in a.names or ()
    )


def _has_bools(dtype: np.dtype[Any]) -> bool:
    """Returns whether a member is a boolean, or contains one."""
    if dtype.names is None:
        return dtype.kind == "b"
    return any(_has_bools(dtype[name].base) for name in dtype.names)


def _struct(dtype: np.dtype[Any], name: str, path: str) -> tuple[dict[str, Any], int]:
    """Returns the schema of a struct, and its alignment: packed if the dtype is packed, else natural."""
    properties, aligns = {}, []
    if not dtype.names:
        raise _unsuitable(name, f"`{path}` without a member")
    for member in dtype.names:
        inside = f"{path}.{member}" if path else member
        properties[member], align = _schema(dtype[member], name, inside)
        aligns.append(align)
    starts = [dtype.fields[member][1] for member in dtype.names] if dtype.fields else []
    widest = max(aligns)
    is_natural = dtype.itemsize % widest == 0 and all(start % align == 0 for start, align in zip(starts, aligns))
    packed = not is_natural and _is_packed(dtype, deep=False)
    schema = {
        "type": "object",
        "TypeDef:Struct": list(dtype.names),
        "properties": properties,
        "required": list(dtype.names),
        "align": 1 if packed else "natural",
    }
    return schema, 1 if packed else widest


def _schema(dtype: np.dtype[Any], name: str, path: str) -> tuple[dict[str, Any], int]:
    import numpy as np

    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        schema, align = _schema(base, name, path)
        for count in reversed(shape):
            lens = {"minItems": count, "maxItems": count}
            schema = {"type": "array", "TypeDef:Array": True, "items": schema, **lens}
        return schema, align
    if dtype.names is not None:
        return _struct(dtype, name, path)
    known = NUMBERS.get(str(dtype.name))
    descr = dtype.newbyteorder("<").str
    if known is None and dtype.kind in "mM":
        return {"type": "integer", "TypeDef:Int64": True, DESCR: descr}, dtype.itemsize
    if known is None and dtype.itemsize and (dtype.kind in "SU" or dtype.type is np.void):
        kind, width = ("Uint32", 4) if dtype.kind == "U" else ("Uint8", 1)
        items = {"type": "integer", f"TypeDef:{kind}": True}
        lens = {"minItems": dtype.itemsize // width, "maxItems": dtype.itemsize // width}
        return {"type": "array", "TypeDef:Array": True, "items": items, **lens, DESCR: descr}, width
    if known is None:
        raise _unsuitable(name, f"`{path}` of NumPy's dtype {dtype}")
    kind, of = known
    out: dict[str, Any] = {"type": of, f"TypeDef:{kind}": True}
    if kind == "Timestamp":
        out["format"] = "date-time"
    return out, dtype.itemsize // 2 if of == "array" else dtype.itemsize


def _is_packed(dtype: np.dtype[Any], deep: bool = True) -> bool:
    """Returns whether the members follow each other in order without padding; ``deep`` also checks nested structs."""
    end = 0
    for name in dtype.names or ():
        assert dtype.fields is not None
        member, start = dtype.fields[name][:2]
        if start != end or (deep and member.base.names and not _is_packed(member.base)):
            return False
        end += member.itemsize
    return end == dtype.itemsize


def _unsuitable(name: str, what: str | Any) -> UnsupportedError:
    return UnsupportedError(
        f"tensor `{name}`: records cannot have {what}",
        code="python/dtype",
        kind="unsupported",
        tensor=name,
        hint="members are numbers, booleans, times, texts and bytes, structs and fixed arrays of these: convert with astype, or save "
        "the member apart",
    )
