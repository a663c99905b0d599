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
import importlib.util
from typing import TYPE_CHECKING, Any

from . import errors
from ._append import AppendReport, append
from ._batches import Batches
from ._blob import Blob
from ._build import BuildReport, build
from ._columns import Columns, ColumnSummary, Description
from ._datasets import Dataset, Runs
from ._dtype import DType
from ._edit import Edit, EditReport, edit
from ._file import File, staged
from ._file import open as open
from ._holdall import Buffer, __version__
from ._limits import Limits
from ._operations import convert, diff, inspect, load, load_into, salvage, sample_diff, scan, stats, verify
from ._quantized import QuantizedWeight, QuantizedWeights
from ._records import Ragged, Records, Selection
from ._reports import (
    ConvertReport,
    Dequantized,
    Diff,
    Histogram,
    Import,
    LayerDiff,
    Overflowed,
    Pickle,
    Reformed,
    SalvageReport,
    SampleDiff,
    ScanReport,
    Stats,
    TensorDiff,
    Unverified,
    ValueDiff,
    VerifyReport,
)
from ._serve import Access, Server, serve
from ._stream import Arriving
from ._tensor import Component, Tensor
from ._values import Simple, Tag
from ._write import TensorSpec, Writer, save, save_bytes
from .errors import (
    AccessDeniedError,
    ConnectionFailedError,
    FileIoError,
    FormatWarning,
    HoldallError,
    IntegrityError,
    LimitError,
    MalformedError,
    MissingFileError,
    MissingMemberError,
    MissingNameError,
    MissingPackageError,
    NotFoundError,
    TargetExistsError,
    UnsupportedError,
    UsageError,
)

if TYPE_CHECKING:
    from . import aio as aio
    from . import carton, schema
    from . import delta as delta
    from . import gpu as gpu
    from . import jobs as jobs
    from . import numpy as numpy
    from . import recipes as recipes
    from . import runners as runners
    from . import safetensors as safetensors
    from . import torch as torch

#: ``open`` is public as well, but ``from holdall import *`` must not hide the built-in function. Modules that are named
#: after other packages (``numpy``, ``torch``) are left out for the same reason; import the others by name.
__all__ = [
    "Access",
    "AccessDeniedError",
    "AppendReport",
    "Arriving",
    "Batches",
    "Blob",
    "Buffer",
    "BuildReport",
    "ColumnSummary",
    "Columns",
    "Component",
    "ConnectionFailedError",
    "ConvertReport",
    "DType",
    "Dataset",
    "Dequantized",
    "Description",
    "Diff",
    "Edit",
    "EditReport",
    "File",
    "FileIoError",
    "FormatWarning",
    "Histogram",
    "HoldallError",
    "Import",
    "IntegrityError",
    "LayerDiff",
    "LimitError",
    "Limits",
    "MalformedError",
    "MissingFileError",
    "MissingMemberError",
    "MissingNameError",
    "MissingPackageError",
    "NotFoundError",
    "Overflowed",
    "Pickle",
    "QuantizedWeight",
    "QuantizedWeights",
    "Ragged",
    "Records",
    "Reformed",
    "Runs",
    "SalvageReport",
    "SampleDiff",
    "ScanReport",
    "Selection",
    "Server",
    "Simple",
    "Stats",
    "Tag",
    "TargetExistsError",
    "Tensor",
    "TensorDiff",
    "TensorSpec",
    "UnsupportedError",
    "Unverified",
    "UsageError",
    "ValueDiff",
    "VerifyReport",
    "Writer",
    "__version__",
    "append",
    "build",
    "carton",
    "convert",
    "diff",
    "edit",
    "errors",
    "formats",
    "inspect",
    "load",
    "load_into",
    "salvage",
    "sample_diff",
    "save",
    "save_bytes",
    "scan",
    "schema",
    "serve",
    "staged",
    "stats",
    "verify",
]

#: Modules that are imported on first use.
_LAZY = ("aio", "carton", "delta", "gpu", "jobs", "numpy", "recipes", "runners", "safetensors", "schema", "torch")
#: Modules that are imported on first use and need another package to be installed.
_LAZY_EXTRAS = ("daft", "ray")


def formats() -> dict[str, tuple[str, ...]]:
    """Returns the formats of this build, and the file name extensions of each."""
    from ._holdall import formats as native

    return {id: tuple(extensions) for id, _, extensions, _, _ in native()}


def __getattr__(name: str) -> Any:
    if name in _LAZY or (name in _LAZY_EXTRAS and importlib.util.find_spec(name)):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    extras = [name for name in _LAZY_EXTRAS if importlib.util.find_spec(name)]
    return sorted({*__all__, "open", *_LAZY, *extras})
