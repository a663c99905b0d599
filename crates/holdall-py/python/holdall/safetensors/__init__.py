"""A drop-in replacement for the package `safetensors`, for files of every format.

``from holdall.safetensors import safe_open`` and ``from holdall.safetensors.torch import save_file`` replace the
imports from ``safetensors`` with the same names, arguments, files, exceptions and messages. :func:`install` makes
``import safetensors`` return this package, also in libraries.

Files of every format that Holdall knows can be read; a name that ends in ``.zt`` or ``.mt`` is written as zTensor or
Metatensor. ``docs/python.md`` has a table of the differences.
"""

from __future__ import annotations

from ._bytes import TensorSpec, deserialize, serialize, serialize_file
from ._errors import SafetensorError
from ._install import VERSION as __version__
from ._install import install, uninstall
from ._open import PySafeSlice, _safe_open_handle, safe_open
from ._prefetch import PrefetchLoader, PrefetchPlan, TensorMeta

__all__ = [
    "PrefetchLoader",
    "PrefetchPlan",
    "PySafeSlice",
    "SafetensorError",
    "TensorMeta",
    "TensorSpec",
    "__version__",
    "_safe_open_handle",
    "deserialize",
    "install",
    "safe_open",
    "serialize",
    "serialize_file",
    "uninstall",
]

_SUBMODULES = ("flax", "mlx", "numpy", "paddle", "tensorflow", "torch")


def __dir__() -> list[str]:
    # Submodules are listed only if they were imported.
    return sorted([*__all__, *(name for name in _SUBMODULES if name in globals())])
