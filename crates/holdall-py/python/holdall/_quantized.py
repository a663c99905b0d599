"""Quantized weights: weights that a model stores as several tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .errors import HoldallError, UsageError

if TYPE_CHECKING:
    import numpy as np

    from ._file import File

__all__ = ["QuantizedWeight", "QuantizedWeights"]


class QuantizedWeight:
    """A weight that a model stores as several tensors: packed elements, scales and others."""

    __slots__ = ("_file", "name", "kind", "writer", "shape", "parameters", "components", "not_applied", "fault")

    #: The name of the weight: that of the tensor that the model had before it was quantized.
    name: str
    #: The storage scheme: ``"gptq"``, ``"fp8-block"``, ``"bnb-4bit"``, …
    kind: str
    #: The software that writes this kind.
    writer: str
    #: The dimensions, in elements; empty if the weight has a fault.
    shape: tuple[int, ...]
    #: Parameters, such as the number of bits and the size of groups, as texts.
    parameters: dict[str, str]
    #: The names of the stored tensors that the weight consists of, by their roles.
    components: dict[str, str]
    #: The names of stored tensors next to the weight that do not change its values, such as scales of activations.
    not_applied: list[str]
    #: Why the weight has no values: a missing, unknown or wrong tensor; ``None`` if it has values.
    fault: HoldallError | None

    def __init__(self, file: File, about: dict[str, Any]) -> None:
        self._file = file
        self.name, self.kind, self.writer = about["name"], about["kind"], about["writer"]
        self.shape = tuple(about["shape"])
        self.parameters, self.components = about["parameters"], about["components"]
        self.not_applied, self.fault = about["not_applied"], about.get("fault")

    def numpy(self, rows: slice | range | tuple[int, int] | None = None) -> np.ndarray[Any, Any]:
        """Returns the values as a writable float32 array.

        Args:
            rows: Rows of the first dimension, as a slice or as ``(start, stop)``; by default all. Only they are computed.

        Raises:
            MalformedError, UnsupportedError: the weight has a fault.
            IntegrityError: the bytes of a tensor do not match their digest.
            UsageError: the rows are outside of the shape, or not every row of a range.
        """
        tensor = self._file._dequantized()[self.name]
        if tensor.fault is not None:
            raise tensor.fault
        if rows is None:
            return tensor.to_dense()
        if isinstance(rows, tuple):
            start, stop = rows
        else:
            count = self.shape[0] if self.shape else 0
            start, stop, step = rows.indices(count) if isinstance(rows, slice) else (rows.start, rows.stop, rows.step)
            stop = max(start, stop)
            if step != 1:
                raise UsageError(f"the step of rows is {step}, expected 1", code="python/rows", kind="misuse")
        if not 0 <= start <= stop:
            raise UsageError(f"rows {start}..{stop} are not a range", code="python/rows", kind="misuse")
        dtype, shape, buffer = tensor._native().dense_rows(tensor._at, start, stop)
        return tensor._array(buffer, 0, tuple(shape), dtype).copy()

    def __repr__(self) -> str:
        about = "unreadable" if self.fault is not None else f"shape={self.shape}"
        return f"<holdall.QuantizedWeight {self.name!r} {self.kind} {about}>"


class QuantizedWeights(Mapping[str, QuantizedWeight]):
    """The quantized weights of a model by name, in the order of its tensors."""

    __slots__ = ("_weights",)

    def __init__(self, weights: dict[str, QuantizedWeight]) -> None:
        self._weights = weights

    def __getitem__(self, name: str) -> QuantizedWeight:
        return self._weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __repr__(self) -> str:
        return f"<holdall.QuantizedWeights {list(self._weights)!r}>"
