"""The results of :func:`holdall.load`: arrays, with the Python types that they had when they were saved."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _holdall
from ._arrays import numpy_dtype, with_tensor_name
from ._encode import DESCR, DTYPE, FIELDS, MASKED, ORDER, SHAPE, TEXT
from ._kinds import named, restored
from ._sparse import LAYOUTS
from ._tensor import WAYS, Tensor, is_dense
from .errors import HoldallError, MalformedError, MissingNameError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np

    from ._file import File

__all__ = ["Loaded"]


class Loaded(dict[Any, Any]):
    """A dict of the tensors of a file that could be loaded. ``loaded["name"]`` of a tensor that could not be loaded
    raises its error."""

    __slots__ = ("faults",)

    #: The errors of the tensors that are not in the dict, by name.
    faults: dict[Any, HoldallError]

    def __init__(self, values: Mapping[Any, Any], faults: dict[Any, HoldallError]) -> None:
        super().__init__(values)
        self.faults = faults

    def __missing__(self, name: Any) -> Any:
        if name in self.faults:
            raise self.faults[name]
        raise KeyError(name)

    def __reduce__(self) -> Any:
        return Loaded, (dict(self), self.faults)


def warn_of_faults(faults: Mapping[str, HoldallError], source: str) -> None:
    """Warns that some tensors of a file were not loaded, and names the first few."""
    messages = [str(e) for e in list(faults.values())[:3]]
    more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
    count = f"{len(faults)} tensor{'' if len(faults) == 1 else 's'}"
    warnings.warn(f"{source}: {count} could not be loaded, see `faults` of the result: {'; '.join(messages)}{more}", stacklevel=4)


def value(tensor: Tensor, dense: bool) -> Any:
    """Returns a copy of a tensor whose layout is not dense, as an array that is not row-major, a sparse matrix or a
    structured array. Records and blobs that no array can represent are returned as objects that read the file.

    Raises:
        UnsupportedError: the tensor has another layout, and ``dense`` is false.
    """
    if tensor.fault is not None:
        raise tensor.fault
    if tensor.layout == "strided" or is_dense(tensor.layout):
        return tensor.numpy(copy=True)
    if tensor.layout == "records":
        found = structured(tensor)
        return _with_own_file(tensor).records() if found is None else found
    if tensor.layout == "blob":
        about = tensor.attributes.get(TEXT)
        return _with_own_file(tensor).blob() if about is None else _texts(tensor, about)
    if dense:
        return tensor.to_dense()
    if tensor.layout in LAYOUTS:
        return tensor.scipy()
    raise UnsupportedError(
        f"{tensor.file.name}: tensor `{tensor.name}`: its layout is {tensor.layout}, not dense",
        code="python/layout",
        kind="unsupported",
        source=tensor.file.name,
        tensor=tensor.name,
        hint=WAYS.get(tensor.layout, "pass dense=True for dense copies, or the names of dense tensors"),
    )


def _with_own_file(tensor: Tensor) -> Tensor:
    """Returns the tensor with a separate handle of its file, which stays open when the file is closed."""
    from ._file import File

    file = tensor.file
    again = File(_holdall.another_handle(file._native), file.name, file._how, file._paths)
    return Tensor(again, tensor._at)


def structured(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """Returns a copy of the records of a dataset as a structured array; ``None`` if an array cannot represent a member:
    it has no fixed size, is optional, or is an enum.

    Raises:
        UnsupportedError: a member needs ml_dtypes.
    """
    import numpy as np

    records = tensor.records()
    if not records._types.is_plain():
        return None
    attributes = tensor.attributes
    try:
        dtype = named(records._types.dtype(), records.schema)
    except UnsupportedError as e:
        raise with_tensor_name(e, tensor.file.name, tensor.name) from None
    if dtype.names is None:
        return records.numpy().copy()
    count = len(records)
    dims = _dims(attributes.get(SHAPE))
    if not count:
        out: np.ndarray[Any, Any] = np.zeros(count, dtype)
    else:
        buffer, start = tensor._native().read_owned(tensor._at, "data")
        memory: Any = buffer
        out = np.ndarray((count,), dtype, memory, start)
    given = _fields(attributes.get(FIELDS))
    if given is not None and len(given.names or ()) == len(dtype.names):
        out = _with_dtype(out, given)
    try:
        return out if dims is None else out.reshape(dims)
    except ValueError:
        return out


def _with_dtype(a: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Returns the records as an array of ``dtype``, or unchanged if they cannot be converted to it."""
    try:
        return a.astype(dtype)
    except (TypeError, ValueError):
        return a


def _fields(about: Any) -> np.dtype[Any] | None:
    """Returns the structured dtype that an attribute describes; ``None`` if the description is invalid."""
    import numpy as np

    try:
        names, formats, offsets, size = about
        made = [_fields(f) if _is_fields(f) else _format(f) for f in formats]
        plain = [name[0] if isinstance(name, list) else name for name in names]
        titles = [name[1] if isinstance(name, list) else None for name in names]
        fields: dict[str, Any] = {"names": plain, "formats": made, "offsets": offsets, "itemsize": size}
        if any(title is not None for title in titles):
            fields["titles"] = titles
        dtype: np.dtype[Any] = np.dtype(fields)  # type: ignore[call-overload]
    except (TypeError, ValueError, LookupError, OverflowError, UnsupportedError):
        return None
    return None if dtype.hasobject else dtype


def _is_fields(form: Any) -> bool:
    return isinstance(form, list) and len(form) == 4


def _format(form: Any) -> Any:
    import numpy as np

    if isinstance(form, list):
        base, shape = form
        return np.dtype((_fields(base) if _is_fields(base) else _format(base), tuple(shape)))
    if not isinstance(form, str):
        raise TypeError("the name of a type must be a string")
    try:
        return np.dtype(form)
    except TypeError:
        return numpy_dtype(form)


def _texts(tensor: Tensor, about: Any) -> Any:
    """Returns the entries of a blob as an array of NumPy's variable-length strings."""
    import numpy as np

    found: list[Any] = list(tensor.blob())
    if not isinstance(about, dict) or not all(isinstance(text, str) for text in found):
        return _with_own_file(tensor).blob()
    options: dict[str, Any] = {} if about.get("coerce", True) else {"coerce": False}
    if "na" in about:
        options["na_object"] = about["na"]
        missing = about.get("missing", b"")
        for at in np.frombuffer(missing, "<u8") if isinstance(missing, bytes) and len(missing) % 8 == 0 else ():
            if at < len(found):
                found[int(at)] = about["na"]
    dtype: Any = np.dtypes.StringDType(**options)
    out = np.array(found, dtype)
    dims = _dims(about.get("shape"))
    try:
        return out if dims is None else out.reshape(dims)
    except ValueError:
        return out


def _dims(shape: Any) -> tuple[int, ...] | None:
    """Returns the dimensions that an attribute lists; ``None`` if it does not."""
    if isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape):
        return tuple(shape)
    return None


def restore(out: dict[str, Any], file: File, already_restored: set[str], faults: dict[str, HoldallError] | None) -> set[str]:
    """Restores the types and orders that the loaded arrays had when they were saved, except those in
    ``already_restored``, and joins masked arrays with their masks. Returns the names of the masks.

    A masked array whose mask does not fit moves to ``faults``; without ``faults``, its error is raised."""
    found: list[tuple[str, str | None]] = []
    for at, noted in _holdall.noted(file._native):
        name = file._native.info(at)[0]
        if name not in out:
            continue
        about = noted.get(MASKED)
        if isinstance(about, dict):
            mask = about.get("mask")
            found.append((name, mask if isinstance(mask, str) else None))
        if name in already_restored:
            continue
        descr = noted.get(DESCR, noted.get(DTYPE))
        if isinstance(descr, str):
            out[name] = restored(out[name], descr)
        if noted.get(ORDER) == "F":
            import numpy as np

            out[name] = np.asfortranarray(out[name])
    used: set[str] = set()
    are_masked = {name for name, _ in found}
    for name, other in found:
        try:
            if other in are_masked:
                raise mask_error(file, name, "the mask is itself a masked array")
            if other is not None and other not in out:
                mask = file[other]
                out[other] = value(mask, True) if mask.layout in WAYS else mask.numpy(copy=True)
            out[name] = masked(out[name], None if other is None else out[other], file, name)
        except (MissingNameError, MalformedError, UnsupportedError) as e:
            if faults is None:
                raise
            del out[name]
            faults[name] = e
            continue
        if other is not None:
            used.add(other)
    return used


def mask_error(file: File, name: str, why: str) -> MalformedError:
    """Returns the error for a mask that does not fit the array ``name``."""
    return MalformedError(
        f"{file.name}: tensor `{name}`: the mask does not match the array: {why}",
        code="python/mask",
        kind="malformed",
        source=file.name,
        tensor=name,
    )


def masked(data: Any, mask: Any, file: File, name: str) -> Any:
    """Returns the masked array ``name``, made from its data and its mask.

    Raises:
        MalformedError: the mask does not have the shape of the data.
    """
    import numpy as np

    about = file[name].attributes[MASKED]
    try:
        made: Any = np.ma.MaskedArray(data, np.ma.nomask if mask is None else mask)
    except (TypeError, ValueError, np.ma.MAError) as e:
        raise mask_error(file, name, str(e)) from None
    fill = about.get("fill")
    dtype = made.dtype.newbyteorder("<")
    if isinstance(fill, bytes) and len(fill) == dtype.itemsize:
        made.set_fill_value(np.frombuffer(fill, dtype)[0] if dtype.itemsize else made.fill_value)
    if about.get("hard") is True:
        made.harden_mask()
    return made
