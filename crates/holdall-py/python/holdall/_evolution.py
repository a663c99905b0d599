"""Renames and converters for files of another schema, prepared for the native half."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from ._arrays import numpy_dtype
from ._encode import PACKED
from ._file import File
from ._row_values import json_text
from ._tensor import Tensor

if TYPE_CHECKING:
    import numpy as np

#: A converter for one member or one tensor of a new schema: names of built-in converters (``"scale(2)|cast"``), or a
#: function of the value, or of the tensor as an array.
Converter = str | Callable[[Any], Any]


def evolution(
    file: File,
    path: str | None,
    rename: Mapping[str, str] | None,
    converters: Mapping[str, Converter] | None,
    drop: bool,
) -> dict[str, Any]:
    """Returns the options for the native half.

    Raises:
        TypeError: a converter is neither a string nor a function.
    """
    given: list[tuple[str, tuple[Any, Any]]] = []
    for at, by in (converters or {}).items():
        if isinstance(by, str):
            given.append((at, (by, None)))
        elif callable(by):
            given.append((at, (None, (_of_values(by), _of_tensors(by, file)))))
        else:
            raise TypeError(f"a converter must be a string or a function, not {type(by).__name__}")
    renames = list((rename or {}).items())
    return {"path": path, "renames": renames, "converters": given, "drop": bool(drop)}


def _of_values(by: Callable[[Any], Any]) -> Callable[[str], str]:
    """Wraps a function of a value as a function of its JSON text."""

    def call(text: str) -> str:
        return json_text(by(json.loads(text, object_hook=_float)))

    return call


def _float(value: dict[str, Any]) -> Any:
    """Returns a float that JSON cannot represent, or the value unchanged."""
    return float(value["$float"]) if value.keys() == {"$float"} else value


def _of_tensors(by: Callable[[Any], Any], file: File) -> Callable[[str, str, list[int]], bytes]:
    """Wraps a function of an array as a function of the tensor's name in the file and the requested dtype and
    shape."""

    def call(name: str, dtype: str, shape: list[int]) -> bytes:
        import numpy as np

        tensor: Tensor = file[name]
        made: np.ndarray[Any, Any] = np.asarray(by(tensor._numbers()))
        wanted = numpy_dtype(dtype)
        if made.dtype != wanted or made.shape != tuple(shape) or dtype in PACKED:
            got = f"{made.dtype} {list(made.shape)}"
            raise TypeError(f"the converter of {name!r} must return {dtype} {shape}; it returned {got}")
        return np.ascontiguousarray(made, wanted).tobytes()

    return call
