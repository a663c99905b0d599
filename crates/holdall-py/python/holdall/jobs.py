"""Work over many files that can be stopped and resumed: one row per file, appended to a file of lines as it is done.

::

    import holdall.jobs

    done = holdall.jobs.run("verify", "models/**/*.safetensors", "verdicts.ndjson", engine="ray")
    print(done.bad)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from . import _engines
from ._engines import Paths
from ._operations import convert
from ._packages import package
from .errors import UsageError

__all__ = ["JobReport", "duplicates", "run"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: The work for a file: a function that returns a row of JSON values.
Work = Literal["verify", "tensors", "hash", "convert"] | Callable[[str], Mapping[str, Any]]
Engine = Literal["threads", "daft", "ray"]
_OWN: dict[str, Callable[[str, Mapping[str, Any]], Mapping[str, Any]]] = {
    "verify": _engines.verdict,
    "tensors": lambda path, how: {"tensors": _engines.tensors(path, how)},
    "hash": lambda path, how: _engines.content(path),
}


@dataclass(frozen=True)
class JobReport:
    """The outcome of a job."""

    #: The path of the file of rows.
    out: str
    #: The number of files that this run processed, and of those that earlier runs had processed.
    done: int
    before: int
    #: The paths of files with an error, or with a verdict other than ``"sound"``, of all runs.
    bad: list[str]


def run(
    work: Work,
    paths: Paths,
    out: str | os.PathLike[str],
    *,
    engine: Engine = "threads",
    workers: int | None = None,
    into: None | str | os.PathLike[str] = None,
    extension: str = ".zt",
    **how: Any,
) -> JobReport:
    """Runs the same work on many files, and writes a row for each.

    Each row is a line of JSON with ``path``, ``size``, ``modified`` and the result of the work; or ``error`` if it
    raised. A file that already has a row in ``out`` is skipped, unless it has changed since, could not be read, or
    the work raised: a job that was killed continues when it is run again. Changes of a file at an address are not
    detected.

    Args:
        work: ``"verify"`` (rows as of :func:`holdall.daft.verify`), ``"tensors"``, ``"hash"`` (SHA-256 of a local
            file), ``"convert"``, or a function that takes a path and returns a dict.
        paths: Paths, addresses, and patterns of paths (``**`` for any depth).
        out: The file of rows; :func:`duplicates` reads the rows of ``"hash"``.
        engine: Where the work runs: in threads of this process, Daft, or Ray.
        workers: The number of files that are processed at a time; by default the engine decides.
        into, extension: For ``"convert"``: the folder to write into, and the extension of the new files, which
            determines the format. Paths below the common folder of all sources are kept; existing files are replaced.
        how: Arguments of :func:`holdall.open`; for ``"convert"`` those of :func:`holdall.convert`.

    Raises:
        UsageError: the work or the engine is unknown; a file would be converted to the path of a source, or two files
            to the same path. No file was processed.
    """
    if isinstance(work, str) and work not in (*_OWN, "convert"):
        known_as = ", ".join((*_OWN, "convert"))
        raise UsageError(f"work must be one of {known_as}, or a function, not {work!r}", code="python/option", kind="misuse")
    engines = {"threads": _threads, "daft": _daft, "ray": _ray}
    if engine not in engines:
        raise UsageError(f"engine must be one of {', '.join(engines)}, not {engine!r}", code="python/option", kind="misuse")
    path = os.fspath(out)
    rows, end = _rows(path)
    known = {row["path"]: row for row in rows}
    found = _engines.files(paths)
    if work == "convert":
        work, how = _conversion(found, into, extension, how), {}
    elif into is not None:
        raise UsageError("into requires work='convert'", code="python/option", kind="misuse")
    before = {p for p in found if p in known and _is_done(known[p]) and _state(p) == _of(known[p])}
    left = [p for p in found if p not in before]
    with open(path, "ab") as file:
        # A line without an end means that the writer was killed.
        file.truncate(end)
        for row in engines[engine](partial(_one, work, how), left, workers):
            # A line is written as a whole, so that one that was cut off is not taken for a row.
            file.write(json.dumps(row).encode() + b"\n")
            file.flush()
            known[row["path"]] = row
    bad = [row["path"] for row in map(known.__getitem__, found) if "raised" in row or row.get("verdict", "sound") != "sound"]
    return JobReport(path, len(left), len(before), bad)


def duplicates(out: str | os.PathLike[str]) -> list[list[str]]:
    """Returns the paths of files with the same content, from the rows that ``run("hash", …)`` wrote."""
    same: dict[str, list[str]] = {}
    rows, _ = _rows(os.fspath(out))
    for row in {row["path"]: row for row in rows}.values():
        if "sha256" in row:
            same.setdefault(row["sha256"], []).append(row["path"])
    return [paths for paths in same.values() if len(paths) > 1]


def _conversion(
    paths: list[str], into: None | str | os.PathLike[str], extension: str, how: Mapping[str, Any]
) -> Callable[[str], Mapping[str, Any]]:
    """Returns a function that converts one of these files and returns its row, after checking the target paths."""
    if into is None:
        raise UsageError("into= names the folder that files are converted into", code="python/option", kind="misuse")
    base = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path in paths])
    target = partial(_target, base, os.fspath(into), extension)
    # No target may be a source, and no target may be written twice.
    taken = {os.path.abspath(path): path for path in paths}
    for path in paths:
        other = taken.setdefault(os.path.abspath(target(path)), path)
        if other != path or os.path.abspath(target(path)) == os.path.abspath(path):
            message = f"{path} would become {target(path)}, which {other} is or becomes"
            raise UsageError(message, code="python/option", kind="misuse", hint="convert them into folders of their own")
    return partial(_convert, target, dict(how))


def _target(base: str, into: str, extension: str, path: str) -> str:
    """Returns the path that a file is converted to."""
    name, _ = os.path.splitext(os.path.relpath(os.path.abspath(path), base))
    return os.path.join(into, name + extension)


def _convert(target: Callable[[str], str], how: Mapping[str, Any], path: str) -> dict[str, Any]:
    made = target(path)
    os.makedirs(os.path.dirname(made), exist_ok=True)
    report = convert(path, made, overwrite=True, **how)
    return {"target": made, "tensors": report.tensors, "nbytes": report.target_len}


def _one(work: Work, how: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Returns the row of a file."""
    size, modified = _state(path)
    row: dict[str, Any] = {"path": path, "size": size, "modified": modified}
    try:
        row.update(_OWN[work](path, how) if isinstance(work, str) else work(path))
    except Exception as e:
        row.update(raised=type(e).__name__, error=str(e))
    return row


def _state(path: str) -> tuple[int | None, int | None]:
    try:
        found = os.stat(path)
    except OSError:
        return None, None
    return found.st_size, found.st_mtime_ns


def _of(row: Mapping[str, Any]) -> tuple[int | None, int | None]:
    return row.get("size"), row.get("modified")


def _is_done(row: Mapping[str, Any]) -> bool:
    return "raised" not in row and row.get("verdict") != "unread"


def _rows(path: str) -> tuple[list[dict[str, Any]], int]:
    """Returns the existing rows, and where they end: an incomplete last line is ignored."""
    rows: list[dict[str, Any]] = []
    end = 0
    if os.path.exists(path):
        with open(path, "rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                end += len(line)
                rows.append(json.loads(line))
    return rows, end


_Call = Callable[[str], dict[str, Any]]


def _threads(call: _Call, paths: list[str], workers: int | None) -> Iterator[dict[str, Any]]:
    with ThreadPoolExecutor(workers) as pool:
        waiting, running = iter(paths), set[Future[dict[str, Any]]]()
        try:
            while True:
                for path in waiting:
                    running.add(pool.submit(call, path))
                    if len(running) >= max(64, 2 * (workers or 0)):
                        break
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (each.result() for each in done)
        finally:
            pool.shutdown(cancel_futures=True)


def _daft(call: _Call, paths: list[str], workers: int | None) -> Iterator[dict[str, Any]]:
    daft = package("daft")

    def call_as_json(path: str) -> str:
        return json.dumps(call(path))

    work = daft.func(call_as_json, return_dtype=daft.DataType.string(), max_concurrency=workers)
    if paths:
        frame = daft.from_pydict({"path": paths}).select(work(daft.col("path")).alias("row"))
        for row in frame.iter_rows():
            yield json.loads(row["row"])


def _ray(call: _Call, paths: list[str], workers: int | None) -> Iterator[dict[str, Any]]:
    ray = package("ray")
    if not ray.is_initialized():
        ray.init()
    remote = ray.remote(_again)
    at_once = workers or max(4, int(2 * ray.cluster_resources().get("CPU", 4)))
    waiting: Iterable[str] = iter(paths)
    running: list[Any] = []
    while True:
        for path in waiting:
            running.append(remote.remote(call, path))
            if len(running) >= at_once:
                break
        if not running:
            return
        done, running = ray.wait(running, num_returns=1)
        yield from ray.get(done)


def _again(call: _Call, path: str) -> dict[str, Any]:
    return call(path)
