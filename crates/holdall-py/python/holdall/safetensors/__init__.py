"""What the package `safetensors` has, for files of every format: a drop-in.

Who writes ``from holdall.safetensors import safe_open`` and ``from holdall.safetensors.torch import save_file`` in place of
``safetensors`` notices nothing: the same names, arguments, files, exceptions and texts. :func:`install` lets
libraries notice nothing either: from then on ``import safetensors`` gives this package to whoever asks.

Files of every format that Holdall knows are read; a name that ends in ``.zt`` or ``.mt`` is written as zTensor or Metatensor. In
``docs/python.md`` is a table of what is the same and what is not.
"""

from __future__ import annotations

from ._bytes import TensorSpec, deserialize, serialize, serialize_file
from ._errors import SafetensorError
from ._install import VERSION as __version__
from ._install import install, uninstall
from ._open import _safe_open_handle, safe_open

__all__ = [
    "SafetensorError",
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
    # Of the submodules, those that were imported.
    return sorted([*__all__, *(name for name in _SUBMODULES if name in globals())])
