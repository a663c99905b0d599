"""Holdall for asyncio: opening, loading, checking and writing run on threads, and the event loop keeps running.

::

    from holdall import aio

    async with aio.open("https://example.com/model.safetensors") as f:
        weights = await f.load(["embed.weight"])
        async for name, array in f.stream():
            ...

Cancelled work (by ``asyncio.timeout``, a task group, or :meth:`asyncio.Task.cancel`) is stopped and awaited: nothing
continues in the background, and no part of an unfinished file stays. This takes the time of a few blocks at most.
Only opening a file at an address and reading one tensor continue by themselves; their results are dropped.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from . import _operations, _write
from ._append import AppendReport
from ._append import append as _append
from ._build import BuildReport
from ._build import build as _build
from ._file import File as _File
from ._file import open as _open
from ._progress import Progress, listening
from ._reports import ConvertReport, VerifyReport

if TYPE_CHECKING:
    from ._records import Records
    from ._stream import Arriving as _Arriving

#: ``open`` is public as well, but ``import *`` must not hide the built-in function.
__all__ = ["Arriving", "File", "append", "build", "convert", "load", "load_into", "save", "verify"]


def __dir__() -> list[str]:
    return sorted([*__all__, "open"])


_T = TypeVar("_T")


class _Ended(Exception):
    """Raised to end cancelled work."""


async def _apart(call: Callable[..., _T], *args: Any, lost: Callable[[_T], object] | None = None, **how: Any) -> _T:
    """Calls a function in a thread. If cancelled, it does not wait for the function, whose result is passed to
    ``lost``."""
    future = asyncio.get_running_loop().run_in_executor(None, functools.partial(call, *args, **how))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(functools.partial(_let_go, lost))
        raise


def _let_go(lost: Callable[[Any], object] | None, future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None and lost is not None:
        lost(future.result())


async def _worked(call: Callable[..., _T], *args: Any, progress: Progress = None, **how: Any) -> _T:
    """Calls a function that reports its progress in a thread. If cancelled, it ends the function by its progress
    callback and waits for it."""
    ended = threading.Event()

    def work() -> _T:
        with listening(progress) as listener:

            def tell(done: int, total: int) -> None:
                if ended.is_set():
                    raise _Ended
                if listener is not None:
                    listener(done, total)

            return call(*args, progress=tell, **how)

    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        ended.set()
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError:
                continue    # It is on its way out already.
        future.exception()    # Whatever it was, nobody asked for it.
        raise


class _Opening:
    """The result of :func:`open`: awaiting it returns the file; ``async with`` closes the file at the end."""

    def __init__(self, opened: Callable[[], Awaitable[File]]) -> None:
        self._opened = opened
        self._file: File | None = None

    def __await__(self) -> Generator[Any, None, File]:
        return self._opened().__await__()

    async def __aenter__(self) -> File:
        self._file = await self._opened()
        return self._file

    async def __aexit__(self, *exc: object) -> None:
        if self._file is not None:
            await self._file.close()


def open(source: Any, **how: Any) -> _Opening:
    """Asynchronous variant of :func:`holdall.open`: ``f = await aio.open(…)``, or ``async with aio.open(…) as f``."""

    async def opened() -> File:
        return File(await _apart(_open, source, lost=_File.close, **how))

    return _Opening(opened)


class File:
    """An open file. Names, shapes and attributes, which need no reading, are on :attr:`file`."""

    __slots__ = ("file",)

    #: The same file for synchronous use: a :class:`holdall.File`.
    file: _File

    def __init__(self, file: _File) -> None:
        self.file = file

    async def read(self, name: str, index: Any = ...) -> Any:
        """Reads a tensor, or the part that an index selects, as :class:`holdall.Tensor` returns it: ``await
        f.read("w", slice(10, 20))`` is ``f["w"][10:20]``."""
        return await _apart(lambda: self.file[name][index])

    async def load(self, names: Iterable[str] | None = None, **how: Any) -> dict[str, Any]:
        """Asynchronous variant of :meth:`holdall.File.load`."""
        return await _worked(self.file.load, names, **how)

    async def load_into(self, buffers: Mapping[str, Any], **how: Any) -> None:
        """Asynchronous variant of :meth:`holdall.File.load_into`."""
        await _worked(self.file.load_into, buffers, **how)

    async def verify(self, **how: Any) -> VerifyReport:
        """Asynchronous variant of :meth:`holdall.File.verify`."""
        return await _worked(self.file.verify, **how)

    async def records(self, name: str, with_: Callable[[Records], _T]) -> _T:
        """Calls a function with a dataset's records in a thread, and returns its result:
        ``await f.records("points", lambda r: r.where("id>=10").column("at"))``."""
        return await _apart(lambda: with_(self.file[name].records()))

    def stream(self, order: Iterable[str] | None = None, **how: Any) -> Arriving:
        """Asynchronous variant of :meth:`holdall.File.stream`: ``async for name, array in f.stream(order)``."""
        return Arriving(self.file.stream(order, **how))

    async def close(self) -> None:
        """Closes the file."""
        await _apart(self.file.close)

    async def __aenter__(self) -> File:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<holdall.aio.File of {self.file!r}>"


class Arriving(AsyncIterator[tuple[str, Any]]):
    """Tensors that arrive one by one. A tensor that arrived while its wait was cancelled is returned next."""

    __slots__ = ("arriving", "_next")

    #: The same iterator for synchronous use: a :class:`holdall.Arriving`.
    arriving: _Arriving

    def __init__(self, arriving: _Arriving) -> None:
        self.arriving = arriving
        self._next: asyncio.Future[Any] | None = None

    async def __anext__(self) -> tuple[str, Any]:
        if self._next is None:
            loop = asyncio.get_running_loop()
            self._next = loop.run_in_executor(None, next, self.arriving, None)
        try:
            found = await asyncio.shield(self._next)
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._next = None
            raise
        self._next = None
        if found is None:
            raise StopAsyncIteration
        return found    # type: ignore[no-any-return]

    async def close(self) -> None:
        """Stops the transfer."""
        await _apart(self.arriving.close)

    async def __aenter__(self) -> Arriving:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


async def load(source: Any, names: Iterable[str] | None = None, **how: Any) -> dict[str, Any]:
    """Asynchronous variant of :func:`holdall.load`."""
    return await _worked(_operations.load, source, names, **how)


async def load_into(source: Any, buffers: Mapping[str, Any], **how: Any) -> None:
    """Asynchronous variant of :func:`holdall.load_into`."""
    await _worked(_operations.load_into, source, buffers, **how)


async def save(target: Any, tensors: Any, **how: Any) -> None:
    """Asynchronous variant of :func:`holdall.save`."""
    await _worked(_write.save, target, tensors, **how)


async def convert(source: Any, target: Any, **how: Any) -> ConvertReport:
    """Asynchronous variant of :func:`holdall.convert`."""
    return await _worked(_operations.convert, source, target, **how)


async def verify(source: Any, **how: Any) -> VerifyReport:
    """Asynchronous variant of :func:`holdall.verify`."""
    return await _worked(_operations.verify, source, **how)


async def append(source: Any, *args: Any, **how: Any) -> AppendReport:
    """Asynchronous variant of :func:`holdall.append`."""
    return await _worked(_append, source, *args, **how)


async def build(target: Any, *args: Any, **how: Any) -> BuildReport:
    """Asynchronous variant of :func:`holdall.build`."""
    return await _worked(_build, target, *args, **how)
