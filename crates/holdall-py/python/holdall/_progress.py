"""Progress as a callback, or as tqdm's bar."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator

from .errors import MissingPackageError

#: A function that is called with the bytes done and the total; ``True`` for a tqdm bar; ``None`` or ``False`` for no
#: output.
Progress = Callable[[int, int], object] | bool | None


@contextmanager
def listening(progress: Progress) -> Iterator[Callable[[int, int], object] | None]:
    """Yields the callback for ``progress``, and closes the bar afterwards."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _bar() as bar:

            def show(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            yield show
    elif callable(progress):
        yield progress
    else:
        raise TypeError("progress must be True, or a function that takes the bytes done and the total")


def _bar() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise MissingPackageError(
            "progress=True shows a bar of tqdm, which is not installed",
            code="python/extra",
            kind="unsupported",
            hint="pip install tqdm, or pass a function that takes the bytes done and the total",
        ) from None
    return tqdm(total=0, unit="B", unit_scale=True)
