"""Progress as a callback, or as tqdm's bar."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator

from .errors import MissingPackageError

#: A function that is called with the bytes done and the total; ``True`` for a tqdm bar; ``None`` or ``False`` for no
#: output.
Progress = Callable[[int, int], object] | bool | None


@contextmanager
def listening(progress: Progress, phases: int = 1) -> Iterator[Callable[[int, int], object] | None]:
    """Yields the callback for ``progress``, and closes the bar afterwards. The total of work in two phases grows when the
    second begins; the bar gives each of them one half, so that it never goes back."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        with _bar() as bar:
            first = 0

            def show(done: int, total: int) -> None:
                nonlocal first
                if phases > 1:
                    first = first or total
                    if total > first:
                        done = first + max(done - first, 0) * first // (total - first)
                    total = 2 * first
                bar.total = total
                bar.update(max(done - bar.n, 0))

            yield show
            # Work that ends in its first phase is complete, too.
            bar.update(max((bar.total or 0) - bar.n, 0))
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
