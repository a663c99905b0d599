"""Deltas: what a fine-tune or a training step changed, as a file that is applied to its base.

::

    from holdall import delta

    delta.make("base.safetensors", "tuned.safetensors", "tuned.delta.zt")
    delta.apply("base.safetensors", "tuned.delta.zt", "copy.safetensors")

The weight updates of slime, SGLang, miles, stitch and TRL are recognised by themselves::

    delta.apply("checkpoint", "updates", "checkpoint-7", to=7)
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from . import _holdall
from ._file import Check, File
from ._limits import Limits
from ._progress import Progress, listening
from ._reports import made
from ._write import Encoding, _writing

__all__ = [
    "ApplyReport",
    "DeltaReport",
    "DeltaTensor",
    "MakeReport",
    "Update",
    "UpdateReport",
    "UpdateTensor",
    "apply",
    "convert",
    "fold",
    "make",
    "open_target",
    "show",
]


def __dir__() -> list[str]:
    return sorted(__all__)


_Path = str | os.PathLike[str]
_Layout = Literal["holdall", "slime-xor", "slime-overwrite", "trl-v1", "trl-v2-raw", "trl-v2-gap"]
_Checksums = Literal["xxh3-128", "blake3", "adler32"]


@dataclass(frozen=True)
class MakeReport:
    """A delta that was written."""

    #: The number of tensors of which some elements differ.
    changed: int
    #: The number of tensors that are stored whole: new ones, and those of another type or shape.
    whole: int
    #: The number of tensors that are equal.
    unchanged: int
    #: The number of tensors that the target lacks.
    removed: int
    #: The number of elements that differ.
    elements: int
    #: The number of bytes of the target's tensors.
    target_len: int
    #: The number of bytes of the delta.
    len: int
    #: Properties of the target that applying the delta does not reproduce.
    not_covered: list[str]


@dataclass(frozen=True)
class ApplyReport:
    """A model that was made of a base and a delta."""

    #: The number of tensors.
    tensors: int
    #: The number of tensors of which elements changed.
    changed: int
    #: The number of tensors that the delta has whole.
    whole: int
    #: The number of tensors of the base that the model lacks.
    removed: int
    #: Whether the base was the target already.
    was_applied: bool
    #: The version of the model, if weight updates were applied.
    version: int | None
    #: The number of weight updates that were applied.
    steps: int
    #: The number of bytes of the model's files.
    len: int


@dataclass(frozen=True)
class DeltaTensor:
    """A tensor of a delta."""

    name: str
    shape: list[int]
    #: The type of the elements: ``"bf16"``.
    dtype: str
    #: The number of elements.
    count: int
    #: The number of elements that differ; ``None`` if the tensor is stored whole.
    changed: int | None
    #: The number of bytes in the file.
    stored_len: int


@dataclass(frozen=True)
class DeltaReport:
    """What a delta changes."""

    tensors: list[DeltaTensor]
    #: The names of the tensors that the target lacks.
    removed: list[str]
    #: The number of tensors of the target.
    target_tensors: int
    #: The digest of the base, if the delta has it.
    base: str | None
    #: The number of bytes of the file.
    len: int


@dataclass(frozen=True)
class UpdateTensor:
    """A tensor of a weight update."""

    name: str
    #: The number of elements that are listed, if the layout lists elements.
    changed: int | None
    #: The number of bytes in the file.
    stored_len: int


@dataclass(frozen=True)
class Update:
    """A weight update."""

    #: The version that it leads to.
    version: int
    #: The version that it is applied to; ``None`` if it is a whole model.
    base: int | None
    #: ``"whole"``, ``"xor"``, ``"overwrite"``, ``"indices"``, ``"raw"`` or ``"gap_delta"``.
    encoding: str
    #: The kind of the checksums, if there are any.
    checksums: str | None
    tensors: list[UpdateTensor]
    #: The number of bytes of the tensors.
    stored_len: int


@dataclass(frozen=True)
class UpdateReport:
    """The weight updates of a folder."""

    #: ``"versions"`` (differences of bytes) or ``"steps"`` (indices and values).
    layout: str
    #: The version that is applied if none is requested.
    latest: int | None
    updates: list[Update]


def make(
    base: _Path,
    target: _Path,
    path: _Path,
    *,
    layout: _Layout = "holdall",
    number: int | None = None,
    checksums: _Checksums = "xxh3-128",
    limits: Limits | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> MakeReport:
    """Writes the delta from one model to another.

    Args:
        path: The zTensor file to write; in another layout, the folder of the update or its file.
        layout: The layout of the delta: Holdall's, or one of a weight update, which changes only elements.
        number: The number of the version that is written; of a weight update by default 1.
        checksums: The kind of the checksums of ``"slime-xor"`` and ``"slime-overwrite"``.
        limits: Limits under which the models are opened: see :func:`holdall.open`.
        overwrite: Whether an existing file is replaced.

    Raises:
        UnsupportedError: a model is a delta itself, or the layout cannot hold the difference.
        TargetExistsError: the target exists and ``overwrite`` is false.
    """
    into = (layout, number, checksums)
    writing = _options(None, None, overwrite, sync, threads)
    with listening(progress) as listener:
        return made(MakeReport, _holdall.delta_make(base, target, path, into, _caps(limits), writing, listener))


def apply(
    base: _Path,
    delta: _Path,
    path: _Path,
    *,
    to: int | None = None,
    version_of_base: int | None = None,
    format: str | None = None,
    encoding: Encoding | None = None,
    limits: Limits | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> ApplyReport:
    """Writes the model that a delta or weight updates make of their base. Everything is checked before anything is written.

    Args:
        delta: A delta, or a folder or file of weight updates.
        path: The file to write; for a model in several files also a folder.
        to: Of weight updates, the version to reach; by default the newest.
        version_of_base: Of weight updates, the version of the base; by default what the base says, or 0.
        format, encoding: How the model is written: see :func:`holdall.convert`.
        limits: Limits under which the files are opened: see :func:`holdall.open`.
        overwrite: Whether an existing file is replaced.

    Raises:
        IntegrityError: the delta was made from another base, or the result is not the target.
        MalformedError: the delta is damaged.
    """
    writing = _options(format, encoding, overwrite, sync, threads)
    versions = (to, version_of_base)
    with listening(progress) as listener:
        return made(ApplyReport, _holdall.delta_apply(base, delta, path, versions, _caps(limits), writing, listener))


def open_target(base: _Path, delta: _Path, *, check: Check = "read", limits: Limits | None = None) -> File:
    """Opens the model that a delta makes of its base, without writing it: a file like others, which computes elements when they are read.

    A row of a changed tensor takes a row of the base and the parts of the delta for 2^20 elements. Of the base, only the
    names, types and shapes of the tensors are compared; a changed tensor is compared with its digest once all of it was
    read. :func:`apply` checks everything.

    Raises:
        IntegrityError: the base has other tensors.
        MalformedError: the file is not a sound delta.
    """
    native = _holdall.delta_open(base, delta, check, _caps(limits))
    return File(native, os.fspath(delta))


def show(delta: _Path, *, limits: Limits | None = None) -> DeltaReport | UpdateReport:
    """Describes a delta, or the weight updates of a folder."""
    report = _holdall.delta_show(delta, _caps(limits))
    if "updates" not in report:
        return made(DeltaReport, report, tensors=[made(DeltaTensor, tensor) for tensor in report["tensors"]])
    updates = [
        made(Update, update, tensors=[made(UpdateTensor, tensor) for tensor in update["tensors"]])
        for update in report["updates"]
    ]
    return made(UpdateReport, report, updates=updates)


def convert(
    delta: _Path,
    path: _Path,
    *,
    layout: _Layout = "holdall",
    base: _Path | None = None,
    to: int | None = None,
    version_of_base: int | None = None,
    number: int | None = None,
    checksums: _Checksums = "xxh3-128",
    limits: Limits | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> MakeReport:
    """Writes a delta or weight updates in another layout.

    Args:
        path, layout, number, checksums: As for :func:`make`; ``number`` is by default that of the source.
        base: The model that the delta was made from; not needed from one layout of TRL to another.
        to, version_of_base: As for :func:`apply`. Several updates become one.

    Raises:
        UsageError: the base is needed and not given.
        UnsupportedError: the layout cannot hold the difference.
    """
    into = (layout, number, checksums)
    versions = (to, version_of_base)
    writing = _options(None, None, overwrite, sync, threads)
    with listening(progress) as listener:
        found = _holdall.delta_convert(delta, base, path, into, versions, _caps(limits), writing, listener)
        return made(MakeReport, found)


def fold(
    deltas: Iterable[_Path],
    path: _Path,
    *,
    limits: Limits | None = None,
    overwrite: bool = False,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> MakeReport:
    """Writes one delta that has the effect of several, applied in their order. The base is not needed.

    Raises:
        IntegrityError: a delta was not made from the target of the one before.
    """
    writing = _options(None, None, overwrite, sync, threads)
    with listening(progress) as listener:
        return made(MakeReport, _holdall.delta_fold(list(deltas), path, _caps(limits), writing, listener))


def _options(format: str | None, encoding: Encoding | None, overwrite: bool, sync: bool, threads: int | None) -> dict[str, Any]:
    return _writing(format, None, None, encoding, None, None, None, overwrite, sync, threads)


def _caps(limits: Limits | None) -> dict[str, Any] | None:
    return dict(limits) if limits is not None else None
