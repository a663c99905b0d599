"""The one exception that the package `safetensors` has, made of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import FileIoError, HoldallError

#: What `safetensors` says where a rule is broken, for programs that look at the text. All else is told in our words.
_TEXTS = {
    "format/empty": "header too small",
    "safetensors/too-short": "header too small",
    "safetensors/header-bounds": "invalid header length",
    "safetensors/header-limit": "header too large",
    "safetensors/truncated": "incomplete metadata, file not fully covered",
    "safetensors/trailing-data": "incomplete metadata, file not fully covered",
    "index/size": "invalid shape, data type, or offset for tensor",
    "index/shape-overflow": "overflow computing buffer size from shape and/or element type",
}


class SafetensorError(Exception):
    """Anything that is wrong with a file, a tensor or an option. Its ``__cause__`` is Holdall's own error, where there
    is one: with a code, the place in the file, and what to do."""


@contextmanager
def telling(doing: str = "") -> Iterator[None]:
    """Raises Holdall's errors as `safetensors` would: one class, and what was being done first."""
    try:
        yield
    except HoldallError as e:
        raise SafetensorError(f"{doing}: {_text(e)}" if doing else _text(e)) from e


def _text(e: HoldallError) -> str:
    if isinstance(e, FileIoError) and e.errno is not None:
        return f"I/O error: {os.strerror(e.errno)} (os error {e.errno}): {e}"
    return _TEXTS.get(e.code, str(e))
