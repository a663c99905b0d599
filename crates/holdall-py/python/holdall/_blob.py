"""The runs of blobs."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, Optional, Union, overload

from . import _holdall
from ._arrays import array, numpy_dtype
from .errors import HoldallError

if TYPE_CHECKING:
    from ._tensor import Tensor

__all__ = ["Blob"]


class Blob:
    """Many runs of bytes, or some of them. ``b[i]`` is a run as what it holds: ``str``, a value of JSON, ``bytes``,
    or a read-only NumPy array of its elements; ``b[a:b]`` are runs again, of which nothing else is read. Whoever takes Arrow's
    columns takes them as one, named after the tensor."""

    __slots__ = ("_tensor", "_native", "_range", "content", "dtype")

    #: What the runs hold.
    content: Literal["utf-8", "json", "bytes", "elements"]
    #: Type of the elements, where they hold elements: ``"float32"``, …
    dtype: Optional[str]

    def __init__(self, tensor: "Tensor", native: _holdall.Blob, places: Optional[range] = None) -> None:
        self._tensor = tensor
        self._native = native
        count, self.content, self.dtype = native.head()
        self._range = range(count) if places is None else places

    @property
    def tensor(self) -> "Tensor":
        """The tensor they are of."""
        return self._tensor

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, key: slice) -> "Blob": ...
    @overload
    def __getitem__(self, key: int) -> Any: ...
    def __getitem__(self, key: Union[int, slice]) -> Any:
        if isinstance(key, slice):
            return Blob(self._tensor, self._native, self._range[key])
        at = place(self._range, key, "runs", None)
        if self.dtype is not None:
            buffer = self._native.bytes(at)
            try:
                return array(buffer, 0, (len(buffer) // numpy_dtype(self.dtype).itemsize,), self.dtype)
            except HoldallError as e:
                raise about(e, self._tensor) from None
        if self.content == "bytes":
            return bytes(self._memory(at))
        text = self._native.texts(at, at + 1, self.content == "json")[0]
        return json.loads(text) if self.content == "json" else text

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def view(self, index: int) -> memoryview:
        """The bytes of a run, read-only, without a copy where the file is mapped."""
        return self._memory(place(self._range, index, "runs", None))

    def texts(self) -> list[str]:
        """All of them as text, of a blob of text or JSON.

        Raises:
            Misuse: it holds something else.
            Malformed: it is not UTF-8, or lies outside the heap.
        """
        places = self._range
        if not places:
            return self._native.texts(0, 0, False)
        low, high = min(places[0], places[-1]), max(places[0], places[-1]) + 1
        return self._native.texts(low, high, False)[:: places.step if len(places) > 1 else 1]

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        from ._arrow import stream_of_blob

        return stream_of_blob(self)

    def __reduce__(self) -> Any:
        return _blob, (self._tensor, self._range)

    def _memory(self, at: int) -> memoryview:
        buffer: Any = self._native.bytes(at)
        return memoryview(buffer)

    def __repr__(self) -> str:
        what = self.content if self.dtype is None else self.dtype
        count = len(self)
        return f"<holdall.Blob {self._tensor.name!r}, {count} run{'' if count == 1 else 's'} of {what}>"


def blob(tensor: "Tensor") -> Blob:
    """The runs of a tensor of the layout ``blob``."""
    return Blob(tensor, _holdall.Blob.open(tensor._native(), tensor._at))


def _blob(tensor: "Tensor", places: range) -> Blob:
    """Runs that were pickled."""
    return Blob(tensor, blob(tensor)._native, places)


def place(places: range, key: Any, what: str, hint: Optional[str]) -> int:
    """The place that an index stands for.

    Raises:
        TypeError: it is not an integer.
        IndexError: it is outside.
    """
    try:
        index = operator.index(key)
    except TypeError:
        more = f"; {hint}" if hint else ""
        raise TypeError(f"{what} are asked for by an integer or a slice, not {type(key).__name__}{more}") from None
    if not -len(places) <= index < len(places):
        raise IndexError(f"index {index} of {len(places)} {what}")
    return places[index]


def about(e: HoldallError, tensor: "Tensor") -> HoldallError:
    """The error, said of a tensor."""
    return type(e)(
        f"{tensor.file.name}: tensor `{tensor.name}`: {e._message}",
        code=e.code,
        kind=e.kind,
        source=tensor.file.name,
        tensor=tensor.name,
        hint=e.hint,
    )
