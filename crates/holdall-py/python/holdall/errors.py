"""What Holdall raises: one class for each kind of fault.

Every error has a stable ``code`` (``"ztensor/manifest-bounds"``), and says as far as it is known in which
``source``, ``tensor`` and ``component`` and at which bytes (``range``, half-open) it is, and in ``hint`` and
``remedies`` what to do about it. Match on classes and codes; the text may change.
"""

from __future__ import annotations

import errno as _errno
from typing import Any, Iterable, Optional

__all__ = [
    "HoldallError",
    "Malformed",
    "Integrity",
    "Unsupported",
    "Limit",
    "NotFound",
    "Misuse",
    "Io",
    "MissingFile",
]


class HoldallError(Exception):
    """Anything that Holdall finds wrong."""

    #: Stable name of the rule that was broken.
    code: str
    #: Whose fault it is: ``"malformed"``, ``"integrity"``, ``"unsupported"``, ``"limit"``, ``"not_found"``,
    #: ``"misuse"``, ``"io"``.
    kind: str
    #: The file, as the caller named it.
    source: Optional[str]
    #: Name of the tensor it is about.
    tensor: Optional[str]
    #: Role of the component it is about.
    component: Optional[str]
    #: The bytes of the file it is about: start and end.
    range: Optional[tuple[int, int]]
    #: What to do about it.
    hint: Optional[str]
    #: The same for programs: ``{"do": "raise_limit", "limit": "decoded_len", "at_least": 5000000000}``.
    remedies: list[dict[str, Any]]

    def __init__(
        self,
        message: str,
        *,
        code: str = "python/error",
        kind: str = "misuse",
        source: Optional[str] = None,
        tensor: Optional[str] = None,
        component: Optional[str] = None,
        range: Optional[tuple[int, int]] = None,
        hint: Optional[str] = None,
        remedies: Iterable[dict[str, Any]] = (),
        errno: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        self._message = message
        self.code = code
        self.kind = kind
        self.source = source
        self.tensor = tensor
        self.component = component
        self.range = range
        self.hint = hint
        self.remedies = list(remedies)
        self.errno = errno

    def __str__(self) -> str:
        # KeyError would show the text in quotes, OSError the number of the error.
        return f"{self._message}\nhint: {self.hint}" if self.hint else self._message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._message!r})"

    def __reduce__(self) -> Any:
        fields = ("code", "kind", "source", "tensor", "component", "range", "hint", "remedies", "errno")
        return _again, (type(self), self._message, {name: getattr(self, name) for name in fields})


class Malformed(HoldallError):
    """The file breaks a rule of its format."""


class Integrity(HoldallError):
    """The file is well formed, but its bytes are not the ones that were written."""


class Unsupported(HoldallError):
    """The file, or what was asked of it, is outside what this version can do."""


class Limit(HoldallError):
    """A number in the file is over a limit: see ``limits`` of :func:`holdall.open`."""


class NotFound(HoldallError, KeyError):
    """There is no tensor, component, attribute or file of a package of that name."""


class Misuse(HoldallError, ValueError):
    """The caller asked for something that cannot be."""


class Io(HoldallError, OSError):
    """The operating system said no."""


class MissingFile(Io, FileNotFoundError):
    """There is no such file."""


_CLASSES = {
    "malformed": Malformed,
    "integrity": Integrity,
    "unsupported": Unsupported,
    "limit": Limit,
    "not_found": NotFound,
    "misuse": Misuse,
    "io": Io,
}


def _again(of: type[HoldallError], message: str, fields: dict[str, Any]) -> HoldallError:
    return of(message, **fields)


def _make(message: str, **fields: Any) -> HoldallError:
    """An error of the class of its kind. The native half calls this."""
    of = _CLASSES.get(fields.get("kind", ""), HoldallError)
    if of is Io and fields.get("errno") == _errno.ENOENT:
        of = MissingFile
    return of(message, **fields)
