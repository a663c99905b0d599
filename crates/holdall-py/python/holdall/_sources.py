"""Objects of other packages as sources: files of fsspec, stores of obstore, and other objects that can be read by
position."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Callable, NamedTuple

__all__ = ["Reader", "in_store", "local", "reader"]

#: A function that takes the starts and ends of ranges and returns the bytes of each.
Read = Callable[[Sequence[tuple[int, int]]], Iterable[Any]]


class Reader(NamedTuple):
    """A source that can be read by position."""

    read: Read
    #: Size in bytes.
    size: int
    #: A name for messages.
    name: str
    #: Whether reads go to another machine.
    far: bool


def reader(source: Any) -> Reader | None:
    """Returns how to read an object by position; ``None`` if that is not possible, or if the object is completely in
    memory.

    Raises:
        TypeError: the object returns strings.
    """
    if isinstance(source, io.TextIOBase):
        raise TypeError("a file object must be opened in binary mode: read() must return bytes")
    found = _of_fsspec(source)
    if found is not None or isinstance(source, io.BytesIO):
        return found
    name = getattr(source, "name", None)
    name = name if isinstance(name, str) else f"<{type(source).__name__}>"
    if hasattr(source, "read") and hasattr(source, "seek"):
        seekable = getattr(source, "seekable", None)
        return _of_file(source, name) if seekable is None or seekable() else None
    if hasattr(source, "size"):
        return _of_ranges(source, name)
    return None


def local(source: Any) -> Any:
    """Returns the path of a local file that fsspec has opened, or is to open; any other object unchanged."""
    fs, path = getattr(source, "fs", None), getattr(source, "path", None)
    if not hasattr(fs, "cat_ranges") or not isinstance(path, str) or getattr(source, "compression", None):
        return source
    return path if _protocol(fs) == "file" and "r" in getattr(source, "mode", "r") else source


def in_store(store: Any, path: str) -> Reader:
    """Returns a reader for a file in an object store: one of obstore's, or an object with the same ``head(path)``
    and ``get_ranges(path, starts=, ends=)``."""
    size = store.head(path)["size"]

    def read(ranges: Sequence[tuple[int, int]]) -> Iterable[Any]:
        return _kept(ranges, lambda some: store.get_ranges(path, starts=[a for a, _ in some], ends=[b for _, b in some]))

    return Reader(read, int(size), path, True)


def _of_fsspec(source: Any) -> Reader | None:
    """Returns a reader for a file that fsspec has opened, or is to open; its file system reads many ranges at a
    time."""
    fs: Any = getattr(source, "fs", None)
    path = getattr(source, "path", None)
    if not hasattr(fs, "cat_ranges") or not isinstance(path, str) or getattr(source, "compression", None):
        return None
    mode = getattr(source, "mode", "rb")
    if "r" not in mode or ("t" in mode or "b" not in mode):
        raise TypeError(f"a file is opened for reading and in binary mode, \"rb\", not {mode!r}")
    size = getattr(source, "size", None)
    size = fs.size(path) if size is None else size

    def cat(ranges: Sequence[tuple[int, int]]) -> Iterable[Any]:
        starts, ends = [a for a, _ in ranges], [b for _, b in ranges]
        found = fs.cat_ranges([path] * len(ranges), starts, ends, on_error="raise")
        for bytes in found:
            if isinstance(bytes, BaseException):
                raise bytes
        return list(found)

    return Reader(lambda ranges: _kept(ranges, cat), int(size), fs.unstrip_protocol(path), _protocol(fs) != "memory")


def _protocol(fs: Any) -> str:
    return str(fs.protocol if isinstance(fs.protocol, str) else fs.protocol[0])


def _of_file(source: Any, name: str) -> Reader:
    """Returns a reader for a file object, from its current position to its end."""
    start = source.tell()
    end = source.seek(0, os.SEEK_END)
    end = source.tell() if end is None else end
    source.seek(start)
    turn = threading.Lock()

    def at(position: int, count: int) -> bytes:
        with turn:
            source.seek(start + position)
            return _all(lambda left, _: source.read(left), count)

    def by_position(position: int, count: int) -> bytes:
        descriptor = source.fileno()    # An error once the file is closed.
        return _all(lambda left, done: os.pread(descriptor, left, start + position + done), count)

    is_plain = type(source) in (io.BufferedReader, io.FileIO) and hasattr(os, "pread")
    one = by_position if is_plain else at
    return Reader(lambda ranges: [one(a, b - a) for a, b in ranges], max(0, end - start), name, not is_plain)


def _all(read: Callable[[int, int], Any], count: int) -> bytes:
    """Reads ``count`` bytes, with as many calls as needed: each is passed the bytes that are left, and the
    position."""
    data = read(count, 0) if count else b""
    if len(data) == count or not data:
        return _bytes(data)
    parts = [_bytes(data)]
    done = len(data)
    while done < count:
        data = _bytes(read(count - done, done))
        if not data:
            break
        parts.append(data)
        done += len(data)
    return b"".join(parts)


def _bytes(data: Any) -> bytes:
    if isinstance(data, str) or data is None:
        raise TypeError("a file object must be opened in binary mode: read() must return bytes")
    return data if type(data) is bytes else bytes(data)


def _of_ranges(source: Any, name: str) -> Reader | None:
    """Returns a reader for an object with ``size`` and one of ``get_ranges(starts, ends)``, ``get_range(start,
    end)``, ``read(start, end)``."""
    many = getattr(source, "get_ranges", None)
    one = getattr(source, "get_range", None) or getattr(source, "read", None)
    if many is None and one is None:
        return None
    size = source.size() if callable(source.size) else source.size

    def read(ranges: Sequence[tuple[int, int]]) -> Iterable[Any]:
        if many is not None:
            return many([a for a, _ in ranges], [b for _, b in ranges])  # type: ignore[no-any-return]
        return [one(a, b) for a, b in ranges]  # type: ignore[misc]

    return Reader(lambda ranges: _kept(ranges, read), int(size), name, True)


def _kept(ranges: Sequence[tuple[int, int]], read: Read) -> list[Any]:
    """Reads all ranges that are not empty."""
    found = iter(read([r for r in ranges if r[0] < r[1]])) if any(a < b for a, b in ranges) else iter(())
    return [next(found, b"") if a < b else b"" for a, b in ranges]
