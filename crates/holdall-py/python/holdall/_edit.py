"""Editing files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _holdall
from ._file import Check, File, Source, _globs, open
from ._limits import Limits
from ._progress import Progress, listening
from ._reports import made
from ._write import Digest, Encoding, _writing, save_bytes
from .errors import FormatWarning, UsageError

__all__ = ["Edit", "EditReport", "edit"]


@dataclass(frozen=True)
class EditReport:
    """The result of an edit, with the names of ``holdall edit --json``."""

    #: Whether files were changed in place; otherwise they were rewritten.
    in_place: bool
    #: The number of bytes written.
    written: int
    #: The length of the model's files in bytes.
    len: int
    #: Bytes of the files that belong to nothing, without alignment padding; :meth:`Edit.compact` removes them.
    unused_len: int
    #: The files that were changed or written, for a model in several files.
    files: list[str]
    #: Parts of the old model that were not to be changed but are missing now, because the format cannot hold them.
    left_behind: list[str]
    #: Warnings about added or renamed tensors that common readers of the format do not accept.
    warnings: list[FormatWarning]

    @classmethod
    def _of(cls, report: dict[str, Any]) -> EditReport:
        return made(cls, report, warnings=[FormatWarning(**w) for w in report["warnings"]])


class Edit:
    """Pending changes to a file or model, which :meth:`commit` makes all at once. A context manager: the changes are
    made when the ``with`` block ends, and not at all after an exception. Create it with :func:`holdall.edit`."""

    __slots__ = ("_native", "_path", "_open", "_writing", "_progress", "_compacts", "_changes", "_report")

    def __init__(self, path: str, opening: tuple[Check, dict[str, Any] | None], writing: dict[str, Any], progress: Progress) -> None:
        self._path = path
        self._open = opening
        self._writing = writing
        self._progress = progress
        self._compacts = False
        self._changes = 0
        self._report: EditReport | None = None
        self._native = _holdall.Edit.open(path, *opening)

    @property
    def report(self) -> EditReport | None:
        """The report, once the changes are made."""
        return self._report

    def append(
        self,
        other: Source | File,
        *,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        rename: Iterable[str] = (),
        replace: bool = False,
    ) -> int:
        """Adds tensors of another file of any format, and returns their number.

        Args:
            include, exclude: Patterns (``"layers.*.weight"``) of the tensors to add, and of those to leave out.
            rename: Rules for the added tensors, such as ``"*=adapter.*"``.
            replace: Whether existing tensors of the same names are replaced.

        Raises:
            UsageError: a tensor of that name exists.
        """
        with ExitStack() as stack:
            file = other if isinstance(other, File) else stack.enter_context(open(other))
            added = self._native.append(file._native, _globs(include), _globs(exclude), _globs(rename) or [], bool(replace))
        self._changes += 1
        return added

    def add(self, name: str, tensor: Any, *, attributes: Mapping[str, Any] | None = None) -> None:
        """Adds a tensor: anything that :func:`holdall.save` accepts. It is copied.

        Raises:
            UsageError: a tensor of that name exists.
            UnsupportedError: when the changes are made, if the format of the file cannot hold it.
        """
        with self._made(name, tensor) as file:
            self._native.append(file._native, None, None, [], False)
        if attributes:
            self._native.set(dict(attributes), name)
        self._changes += 1

    def replace(self, name: str, tensor: Any) -> None:
        """Replaces a tensor, which keeps its name and attributes: see :meth:`add`.

        Raises:
            MissingNameError: there is no tensor of that name.
        """
        with self._made(name, tensor) as file:
            self._native.replace(name, file._native)
        self._changes += 1

    def remove(self, *patterns: str) -> int:
        """Removes the tensors that match patterns (``"layers.3.*"``), and returns their number.

        Raises:
            MissingNameError: no tensor matches.
        """
        removed = self._native.remove(_some(patterns, "remove", "patterns"))
        self._changes += 1
        return removed

    def rename(self, *rules: str) -> int:
        """Renames the tensors that rules such as ``"model.*=*"`` match, and returns their number. The first rule that
        matches a name applies. Patterns and rules apply to the names after the changes so far.

        Raises:
            UsageError: two tensors would have the same name. MissingNameError: no rule matches.
        """
        renamed = self._native.rename(_some(rules, "rename", "rules"))
        self._changes += 1
        return renamed

    def set(self, attributes: Mapping[str, Any], *, tensor: str | None = None) -> None:
        """Sets attributes of the file, or of a tensor.

        Raises:
            MissingNameError: there is no such tensor.
        """
        self._native.set(dict(attributes), tensor)
        self._changes += 1

    def unset(self, *keys: str, tensor: str | None = None) -> None:
        """Removes attributes of the file, or of a tensor.

        Raises:
            NotFoundError: there is no such attribute or tensor.
            UsageError: the tensor cannot be read without the attribute.
        """
        self._native.unset(_some(keys, "unset", "keys"), tensor)
        self._changes += 1

    def compact(self) -> None:
        """Rewrites the file without unused bytes, after the other changes."""
        self._compacts = True

    def commit(self) -> EditReport:
        """Makes the changes. If the process is killed at any time, the file is either the old or the new one.

        Raises:
            UnsupportedError: the format cannot hold a change; the file is unchanged then.
            UsageError: the edit has ended.
        """
        with listening(self._progress) as listener:
            if self._compacts and not self._changes:
                self._native.discard()
                report = self._compacted(listener)
            else:
                report = self._native.commit(self._writing, listener)
                if self._compacts:
                    compacted = self._compacted(listener)
                    report = compacted | {name: report[name] + compacted[name] for name in ("left_behind", "warnings")}
        self._report = EditReport._of(report)
        return self._report

    def _compacted(self, listener: Any) -> dict[str, Any]:
        return _holdall.compact(self._path, *self._open, self._writing, listener)

    def discard(self) -> None:
        """Drops the changes."""
        self._native.discard()

    def __enter__(self) -> Edit:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is not None:
            self.discard()
        elif self._report is None:
            self.commit()

    @staticmethod
    def _made(name: str, tensor: Any) -> File:
        """Returns a file in memory with one tensor."""
        return open(save_bytes({name: tensor}, format="ztensor"))

    def __repr__(self) -> str:
        state = "done" if self._report is not None else f"{self._changes} changes"
        return f"<holdall.Edit {self._path!r}, {state}>"


def edit(
    path: str | os.PathLike[str],
    *,
    encoding: Encoding | None = None,
    level: int | None = None,
    digest: Digest | None = None,
    check: Check = "read",
    limits: Limits | None = None,
    sync: bool = True,
    threads: int | None = None,
    progress: Progress = None,
) -> Edit:
    """Starts an edit of a file or model: adds, replaces, removes and renames tensors, and sets attributes, as
    ``holdall edit`` does.

    ::

        with holdall.edit("model.zt") as e:
            e.append("adapter.safetensors", rename=["*=adapter.*"])
            e.replace("embed.weight", weights)
            e.remove("lm_head.*")
            e.set({"license": "MIT", "epoch": 3})
        print(e.report.in_place, e.report.written)

    The file is changed in place if its format and file system allow that, and otherwise rewritten. Of a model in several
    files, named by its folder, its index or its first part, only the files that change are written.

    Args:
        path: The file or model to change.
        encoding: ``"raw"`` or ``"zstd"`` (at ``level``) for new tensors; others stay as they are.
        digest: The digest of new tensors.
        check, limits: How the file is opened: see :func:`holdall.open`.
        sync: Whether the changes are made only when the new bytes are on disk.
        progress: ``True`` for a bar, or a function that is called with the bytes done and the total.

    Raises:
        UsageError: the format cannot be written. UnsupportedError: the file cannot be edited where it is.
    """
    writing = _writing(None, None, None, encoding, level, digest, None, True, sync, threads)
    return Edit(os.fspath(path), (check, None if limits is None else dict(limits)), writing, progress)


def _some(all: tuple[str, ...], method: str, what: str) -> list[str]:
    if not all:
        raise UsageError(f"{method} needs one or more {what}", code="python/option", kind="misuse")
    if any(not isinstance(one, str) for one in all):
        raise TypeError(f"{what} must be strings")
    return list(all)
