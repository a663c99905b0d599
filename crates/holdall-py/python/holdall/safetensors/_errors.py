"""The only exception of the package `safetensors`, made from Holdall's errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import FileIoError, HoldallError

#: The messages of `safetensors` by rule, for programs that match on the text. All other errors have Holdall's
#: message.
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
    """An error in a file, a tensor or an option. Its ``__cause__`` is Holdall's own error, if any, with a code,
    the location in the file, and a hint."""


@contextmanager
def telling(doing: str = "") -> Iterator[None]:
    """Raises Holdall's errors as a ``SafetensorError`` whose message begins with ``doing``."""
    try:
        yield
    except HoldallError as e:
        raise SafetensorError(f"{doing}: {_text(e)}" if doing else _text(e)) from e


def _text(e: HoldallError) -> str:
    if isinstance(e, FileIoError) and e.errno is not None:
        return f"I/O error: {os.strerror(e.errno)} (os error {e.errno}): {e}"
    return _TEXTS.get(e.code, str(e))
