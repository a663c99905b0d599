"""Open, load, save, convert and verify tensor files and packages of models: safetensors, zTensor, Metatensor, Carton.

::

    import holdall

    with holdall.open("model.safetensors") as f:
        print(f["embed.weight"].shape)
        rows = f["embed.weight"][10:20]  # reads these rows only

    weights = holdall.load("model.safetensors")  # writable NumPy arrays
    holdall.save("model.zt", weights, encoding="zstd")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import errors
from ._batches import Batches
from ._blob import Blob
from ._build import BuildReport, build
from ._datasets import Dataset, Runs
from ._file import File, open, staged
from ._holdall import Buffer, __version__
from ._limits import Limits
from ._operations import convert, diff, inspect, load, load_into, salvage, scan, stats, verify
from ._records import Ragged, Records, Selection
from ._reports import (
    ConvertReport,
    Diff,
    Import,
    Overflowed,
    Pickle,
    Reformed,
    SalvageReport,
    ScanReport,
    Stats,
    TensorDiff,
    Unverified,
    ValueDiff,
    VerifyReport,
    Warning,
)
from ._serve import Access, Server, serve
from ._stream import Arriving
from ._tensor import Component, Tensor
from ._values import Simple, Tag
from ._write import TensorSpec, Writer, save, save_bytes
from .errors import (
    HoldallError,
    Integrity,
    Io,
    Limit,
    Malformed,
    MissingFile,
    Misuse,
    NotFound,
    Unsupported,
)

if TYPE_CHECKING:
    from . import carton, schema

__all__ = [
    "Access",
    "Arriving",
    "Batches",
    "Blob",
    "Buffer",
    "BuildReport",
    "Component",
    "ConvertReport",
    "Dataset",
    "Diff",
    "File",
    "HoldallError",
    "Import",
    "Integrity",
    "Io",
    "Limit",
    "Limits",
    "Malformed",
    "MissingFile",
    "Misuse",
    "NotFound",
    "Overflowed",
    "Pickle",
    "Ragged",
    "Records",
    "Reformed",
    "Runs",
    "SalvageReport",
    "ScanReport",
    "Selection",
    "Server",
    "Simple",
    "Stats",
    "Tag",
    "Tensor",
    "TensorDiff",
    "TensorSpec",
    "Unsupported",
    "Unverified",
    "ValueDiff",
    "VerifyReport",
    "Warning",
    "Writer",
    "__version__",
    "build",
    "carton",
    "convert",
    "diff",
    "errors",
    "formats",
    "inspect",
    "load",
    "load_into",
    "open",
    "salvage",
    "save",
    "save_bytes",
    "scan",
    "schema",
    "serve",
    "staged",
    "stats",
    "verify",
]


def formats() -> dict[str, tuple[str, ...]]:
    """The formats of this build, and the file name extensions of each."""
    from ._holdall import formats as native

    return {id: tuple(extensions) for id, _, extensions, _, _ in native()}


def __getattr__(name: str) -> Any:
    """Modules that take as long to import as all else together, once they are asked for."""
    if name in ("carton", "schema"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
