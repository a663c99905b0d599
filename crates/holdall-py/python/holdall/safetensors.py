"""The functions that people know from the package `safetensors`, for files of every format.

Exchange ``from safetensors import safe_open`` for ``from holdall.safetensors import safe_open``. For
``safetensors.numpy`` and ``safetensors.torch`` there are :mod:`holdall.numpy` and :mod:`holdall.torch`.
What is written is safetensors unless the file's extension says another format.
"""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from ._file import File
from ._file import open as _open
from ._tensor import Tensor
from .errors import Misuse
from .numpy import load, load_file, save, save_file

__all__ = ["safe_open", "save_file", "load_file", "save", "load"]

#: safetensors' own names of element types.
_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "float6_e2m3fn": "F6_E2M3",
    "float6_e3m2fn": "F6_E3M2",
    "float4_e2m1fn": "F4",
}


class safe_open:
    """An open file whose tensors are of one framework.

    Args:
        filename: A path.
        framework: ``"np"``/``"numpy"`` or ``"pt"``/``"torch"``.
        device: Where torch tensors go.
    """

    def __init__(
        self,
        filename: Union[str, "os.PathLike[str]"],
        framework: str = "np",
        device: Any = "cpu",
    ) -> None:
        known = {"np": "numpy", "numpy": "numpy", "pt": "torch", "torch": "torch", "pytorch": "torch"}
        if framework not in known:
            raise Misuse(f'framework is "numpy" or "torch", not {framework!r}', code="python/option", kind="misuse")
        self._framework = known[framework]
        if self._framework == "torch":
            from ._torch import module

            module()
        self._device = device
        self._file: File = _open(filename, strict=True)

    def __enter__(self) -> "safe_open":
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    def keys(self) -> list[str]:
        """Names, sorted."""
        return sorted(self._file)

    def offset_keys(self) -> list[str]:
        """Names in the order of their bytes in the file."""
        return sorted(self._file, key=lambda name: min(self._file[name].location.values(), default=(0, 0)))

    def metadata(self) -> Optional[dict[str, str]]:
        """The file's attributes; ``None`` where there are none. Those that are not text are JSON."""
        import json

        found = self._file.attributes
        text = {k: v if isinstance(v, str) else json.dumps(v, default=str) for k, v in found.items()}
        return text or None

    def get_tensor(self, name: str) -> Any:
        """A tensor in memory of its own."""
        return self._give(self._file[name])

    def get_tensors(self, names: Optional[list[str]] = None) -> dict[str, Any]:
        """Tensors in memory of their own."""
        return {name: self.get_tensor(name) for name in (self.keys() if names is None else names)}

    def get_slice(self, name: str) -> "Slice":
        """A tensor of which only what is asked for is read."""
        return Slice(self, self._file[name])

    def _give(self, t: Tensor) -> Any:
        if self._framework == "torch":
            return t.torch(self._device)
        return t.numpy(copy=True)


class Slice:
    """A tensor to be read in part: ``s[10:20]``."""

    def __init__(self, of: safe_open, tensor: Tensor) -> None:
        self._of = of
        self._tensor = tensor

    def get_shape(self) -> list[int]:
        """Its dimensions."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """Its type as safetensors spells it: ``"F32"``."""
        return _NAMES.get(self._tensor.dtype, self._tensor.dtype)

    def __getitem__(self, key: Any) -> Any:
        import numpy as np

        if self._of._framework == "torch":
            from ._torch import of_numpy

            return of_numpy(np.array(self._tensor[key]), self._tensor.dtype, self._of._device)
        return np.array(self._tensor[key])
