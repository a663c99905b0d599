"""The runs of blobs."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from . import _holdall
from ._arrays import array, numpy_dtype
from ._dtype import DType
from .errors import HoldallError

if TYPE_CHECKING:
    import numpy as np

    from ._tensor import Tensor

__all__ = ["Blob"]


#: Positions of records or runs, or a mask over them.
Chosen: TypeAlias = "Sequence[int] | Sequence[bool] | np.ndarray[Any, Any]"

#: Positions for the native half: the first and one past the last, or an array of int64.
Picked: TypeAlias = "tuple[int, int] | np.ndarray[Any, Any]"

#: The number of runs that are read together: at first, and at most.
_FEW, _MAX = 32, 4096


class Blob:
    """The runs of bytes of a blob, or some of them. ``b[i]`` is the content of a run: ``str``, a JSON value,
    ``bytes``, or a read-only NumPy array of its elements; ``b[a:b]``, ``b[[1, 5]]`` and ``b[mask]`` are again
    runs, and only those are read. Iterating over the runs of a remote file reads many of them with each request.
    Arrow consumers take the runs as one column, named after the tensor."""

    __slots__ = ("_tensor", "_native", "_positions", "content", "dtype")

    #: The content of the runs: ``"utf-8"``, ``"json"``, ``"bytes"`` or ``"elements"``.
    content: Literal["utf-8", "json", "bytes", "elements"]
    #: The element type if the runs hold elements: ``"float32"``, …
    dtype: DType | None

    def __init__(self, tensor: Tensor, native: _holdall.Blob, positions: range | np.ndarray[Any, Any] | None = None) -> None:
        self._tensor = tensor
        self._native = native
        count, self.content, dtype = native.head()
        self.dtype = None if dtype is None else DType(dtype)
        self._positions: range | np.ndarray[Any, Any] = range(count) if positions is None else positions

    @property
    def tensor(self) -> Tensor:
        """The tensor that holds the runs."""
        return self._tensor

    def __len__(self) -> int:
        return len(self._positions)

    @overload
    def __getitem__(self, key: slice | Chosen) -> Blob: ...
    @overload
    def __getitem__(self, key: int) -> Any: ...
    def __getitem__(self, key: int | slice | Chosen) -> Any:
        if isinstance(key, slice):
            return Blob(self._tensor, self._native, self._positions[key])
        numbers = chosen(key, len(self), "runs")
        if numbers is not None:
            of = self._positions
            positions = numbers * of.step + of.start if isinstance(of, range) else of[numbers]
            return Blob(self._tensor, self._native, positions)
        at = self._place(key)
        return self._values((at, at + 1))[0]

    def __iter__(self) -> Iterator[Any]:
        start, count = 0, _FEW
        while start < len(self._positions):
            found = self._values(self[start : start + count]._picked())
            yield from found
            start, count = start + len(found), min(4 * count, _MAX)

    def view(self, index: int) -> memoryview:
        """Returns the bytes of a run, read-only, without a copy if the file is mapped."""
        buffer: Any = self._native.bytes(self._place(index))
        return memoryview(buffer)

    def texts(self) -> list[str]:
        """Returns all runs as strings, if the blob holds text or JSON.

        Raises:
            UsageError: the blob holds bytes or elements.
            MalformedError: a run is not UTF-8, or lies outside the heap.
        """
        return self._native.texts(self._picked(), False, False)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        from ._arrow import stream_of_blob

        return stream_of_blob(self)

    def __reduce__(self) -> Any:
        return _blob, (self._tensor, self._positions)

    def _values(self, positions: Picked) -> list[Any]:
        """Reads the first of the runs at these positions, as many as are read together."""
        if self.content in ("utf-8", "json"):
            texts = self._native.texts(positions, self.content == "json", True)
            return [json.loads(text) for text in texts] if self.content == "json" else texts
        buffers: list[Any] = self._native.some(positions)
        if self.dtype is None:
            return [bytes(memoryview(buffer)) for buffer in buffers]
        size = numpy_dtype(self.dtype).itemsize
        try:
            return [array(buffer, 0, (len(buffer) // size,), self.dtype) for buffer in buffers]
        except HoldallError as e:
            raise about(e, self._tensor) from None

    def _place(self, index: Any) -> int:
        return int(self._positions[position(range(len(self)), index, "runs", None)])

    def _picked(self) -> Picked:
        import numpy as np

        positions = self._positions
        if isinstance(positions, range) and positions.step == 1:
            return positions.start, positions.stop
        return np.ascontiguousarray(positions, "<i8")

    def __repr__(self) -> str:
        what = self.content if self.dtype is None else self.dtype
        count = len(self)
        return f"<holdall.Blob {self._tensor.name!r}, {count} run{'' if count == 1 else 's'} of {what}>"

    def _repr_html_(self) -> str:
        from ._html import blob

        return blob(self)


def blob(tensor: Tensor) -> Blob:
    """Opens the runs of a tensor of the layout ``blob``."""
    return Blob(tensor, _holdall.Blob.open(tensor._native(), tensor._at))


def _blob(tensor: Tensor, positions: range | np.ndarray[Any, Any]) -> Blob:
    """Restores pickled runs."""
    return Blob(tensor, blob(tensor)._native, positions)


def position(positions: range, key: Any, what: str, hint: str | None) -> int:
    """Returns the position that an index selects.

    Raises:
        TypeError: the index is not an integer.
        IndexError: the index is out of range.
    """
    try:
        index = operator.index(key)
    except TypeError:
        more = f"; {hint}" if hint else ""
        raise TypeError(f"{what} must be selected by an integer or a slice, not {type(key).__name__}{more}") from None
    if not -len(positions) <= index < len(positions):
        raise IndexError(f"index {index} of {len(positions)} {what}")
    return positions[index]


def chosen(key: Any, count: int, what: str) -> np.ndarray[Any, Any] | None:
    """Returns the positions, below ``count``, that a list, an array or a mask selects; ``None`` if the key is a
    single index. Masked elements of the key are left out.

    Raises:
        IndexError: a position is out of range, or a mask has another length.
        TypeError: the key does not hold positions or booleans.
    """
    import numpy as np

    is_list = isinstance(key, list) or (hasattr(key, "__array__") and getattr(key, "ndim", 0) > 0)
    if not is_list:
        return None
    # Masked elements select nothing: the values below the mask of a masked array have no meaning.
    if isinstance(key, np.ma.MaskedArray):
        key = key.filled(False) if key.dtype.kind == "b" else key.compressed()
    # An empty list has no type; it selects nothing.
    given = np.asarray(key) if len(key) else np.zeros(0, "<i8")
    if given.ndim != 1 or given.dtype.kind not in "biu":
        raise TypeError(f"{what} are selected by a list of positions or of booleans, not of {given.dtype} in {given.ndim} dimensions")
    if given.dtype.kind == "b":
        if len(given) != count:
            raise IndexError(f"a mask of {len(given)} for {count} {what}")
        return np.flatnonzero(given).astype("<i8")
    outside = given[(given < -count) | (given >= count)]
    if len(outside):
        raise IndexError(f"index {outside[0]} of {count} {what}")
    positions = given.astype("<i8")
    return np.where(positions < 0, positions + count, positions)


def about(e: HoldallError, tensor: Tensor) -> HoldallError:
    """Returns the error with the name of its tensor."""
    return type(e)(
        f"{tensor.file.name}: tensor `{tensor.name}`: {e._message}",
        code=e.code,
        kind=e.kind,
        source=tensor.file.name,
        tensor=tensor.name,
        hint=e.hint,
    )
