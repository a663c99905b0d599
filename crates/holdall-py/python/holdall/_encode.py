"""Arrays of types that files have no elements for, as tensors with attributes: docs/spec/values.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import UnsupportedError

if TYPE_CHECKING:
    import numpy as np

#: Formats of which tensors keep the order that an array had, as an attribute.
KEEPING = frozenset(("ztensor", "ztensor2"))
#: Formats that store an array with its first dimension varying fastest.
TURNING = frozenset(("npy", "npz", "pytorch"))
#: The attributes of values that formats have no type for.
DESCR, DTYPE, TEXT, MASKED = "numpy.descr", "numpy.dtype", "numpy.text", "numpy.masked"
ORDER, SHAPE, FIELDS = "numpy.order", "numpy.shape", "numpy.fields"
#: Types of ml_dtypes that no format has, and the types that their elements are stored as.
SUBSTITUTES = {
    "int4": "int8",
    "int2": "int8",
    "uint4": "uint8",
    "uint2": "uint8",
    "float8_e3m4": "uint8",
    "float8_e4m3": "uint8",
    "float8_e4m3b11fnuz": "uint8",
}


#: Bits per element, for the types whose elements share bytes in files.
PACKED = {"float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4}
#: Types that a format holds only as bytes with an attribute.
LACKING = {
    "ztensor2": ("float6_e2m3fn", "float6_e3m2fn"),
    "npz": tuple(PACKED),
    "pytorch": ("float6_e2m3fn", "float6_e3m2fn"),
    "hdf5": tuple(PACKED),
}


class Noted(NamedTuple):
    """A value with attributes of its tensor, and what it is in Python."""

    value: Any
    attributes: Mapping[str, Any]
    was: str


def numbers(a: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], dict[str, Any]] | None:
    """Returns the elements as numbers, and the attributes that say what they were; ``None`` if they are numbers, or
    have no such form. Elements of several numbers take another last dimension, along which they are contiguous."""
    import numpy as np

    dtype = a.dtype
    if dtype.kind in "Mm":
        fixed = dtype.newbyteorder("<")
        return a.astype(fixed, copy=False).view("<i8"), {DESCR: fixed.str}
    if dtype.name in SUBSTITUTES:
        # The unused bits of integers below 8 bits are not defined in memory.
        stored = np.dtype(SUBSTITUTES[dtype.name])
        is_integer = "int" in dtype.name
        return (a.astype(stored) if is_integer else a.view(stored)), {DTYPE: str(dtype.name)}
    if dtype.name in PACKED and (a.size * PACKED[dtype.name]) % 8:
        # Formats have no tensors that end within a byte.
        return a.view(np.uint8), {DTYPE: str(dtype.name)}
    # Types of ml_dtypes have the kind V, too.
    if dtype.kind not in "SUV" or dtype.names is not None or (dtype.kind == "V" and dtype.type is not np.void):
        return None
    fixed = dtype.newbyteorder("<")
    unit = np.dtype("<u4" if dtype.kind == "U" else "u1")
    count = dtype.itemsize // unit.itemsize
    if count == 0 or a.size == 0:
        return np.zeros((*a.shape, count), unit), {DESCR: fixed.str}
    # In the order that the array has: an array whose transpose is contiguous is not copied.
    turned = a.T if is_turned(a) else a
    flat = np.ascontiguousarray(turned, fixed)
    found = flat.reshape(-1).view(unit).reshape(*turned.shape, count)
    if turned is not a:
        found = found.transpose(*reversed(range(a.ndim)), a.ndim)
    return found, {DESCR: fixed.str}


def is_turned(a: np.ndarray[Any, Any]) -> bool:
    """Returns whether the first dimension varies fastest, and this is not also row-major order."""
    return bool(a.flags.f_contiguous and not a.flags.c_contiguous and a.size > 0)


def is_text(value: Any) -> bool:
    """Returns whether it is an array of NumPy's strings of any length."""
    return getattr(getattr(value, "dtype", None), "kind", None) == "T"


def texts(a: np.ndarray[Any, Any]) -> tuple[list[str], dict[str, Any]]:
    """Returns the strings of an array of any length each, in row-major order, and the attribute for their original form.

    Raises:
        UnsupportedError: missing elements are another object than ``None`` and NaN.
    """
    import numpy as np

    dtype: Any = a.dtype
    about: dict[str, Any] = {"shape": list(a.shape)}
    if not dtype.coerce:
        about["coerce"] = False
    flat = a.reshape(-1).tolist()
    if hasattr(dtype, "na_object"):
        na = dtype.na_object
        is_nan = isinstance(na, float) and na != na
        if na is not None and not is_nan and not isinstance(na, str):
            raise UnsupportedError(
                f"elements of NumPy's dtype {dtype} cannot be stored: files hold None, NaN and texts as missing elements",
                code="python/dtype",
                kind="unsupported",
                hint="convert them first: x.astype(numpy.dtypes.StringDType(na_object=None))",
            )
        about["na"] = float("nan") if is_nan else na
        if not isinstance(na, str):
            missing = [at for at, text in enumerate(flat) if not isinstance(text, str)]
            if missing:
                about["missing"] = np.array(missing, "<u8").tobytes()
            flat = [text if isinstance(text, str) else "" for text in flat]
    return flat, {TEXT: about}


def is_masked(value: Any) -> bool:
    """Returns whether it is a masked array."""
    # Any other array says so without importing NumPy.
    return hasattr(value, "dtype") and hasattr(value, "_fill_value") and hasattr(value, "filled")


def spread(tensors: Iterable[tuple[Any, Any]], taken: Iterable[str] = ()) -> Iterator[tuple[Any, Any]]:
    """Yields names and values, masked arrays as two: their data, and their mask."""
    names: set[str] | None = None
    pairs = list(tensors)
    for name, value in pairs:
        if not is_masked(value):
            yield name, value
            continue
        import numpy as np

        names = {*taken, *(str(other) for other, _ in pairs)} if names is None else names
        about: dict[str, Any] = {"mask": None}
        mask = np.ma.getmask(value)
        if mask is not np.ma.nomask:
            about["mask"] = free(f"{name}.mask", names)
        if value._fill_value is not None:
            fill = np.asarray(value.fill_value, value.dtype)
            about["fill"] = fill.astype(fill.dtype.newbyteorder("<")).tobytes()
        if value.hardmask:
            about["hard"] = True
        yield name, Noted(np.ma.getdata(value), {MASKED: about}, "it is a masked array")
        if about["mask"] is not None:
            yield about["mask"], Noted(np.asarray(mask), {}, f"it is the mask of the masked array `{name}`")


def free(name: str, taken: set[str]) -> str:
    """Returns the name, with a number if it is taken; it is taken from then on."""
    found, count = name, 0
    while found in taken:
        count += 1
        found = f"{name}~{count}"
    taken.add(found)
    return found


def fields(dtype: np.dtype[Any]) -> list[Any]:
    """Describes a structured dtype with its offsets and titles."""
    assert dtype.names is not None and dtype.fields is not None
    names: list[Any] = []
    formats: list[Any] = []
    offsets: list[int] = []
    for name in dtype.names:
        member, offset, *title = dtype.fields[name]
        names.append([name, title[0]] if title else name)
        formats.append(_format(member))
        offsets.append(int(offset))
    return [names, formats, offsets, int(dtype.itemsize)]


def _format(dtype: np.dtype[Any]) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return [_format(base), list(shape)]
    if dtype.names is not None:
        return fields(dtype)
    return dtype.str if dtype.isbuiltin != 2 else str(dtype.name)
