"""The exceptions of Holdall: one class for each kind of fault, derived from the matching built-in exception.

Every error has a stable ``code`` (``"ztensor/manifest-bounds"``). As far as they are known, it also has the ``source``,
``tensor``, ``component`` and bytes (``range``, half-open) that it is about, and in ``hint`` and ``remedies`` what to do
about it. Match on classes and codes; the text may change.

==============================  ===========================================
class                           is also
==============================  ===========================================
:class:`HoldallError`
:class:`MalformedError`         :class:`ValueError`
:class:`IntegrityError`
:class:`UnsupportedError`       :class:`NotImplementedError`
:class:`MissingPackageError`    :class:`UnsupportedError`, :class:`ImportError`
:class:`LimitError`
:class:`NotFoundError`
:class:`MissingNameError`       :class:`NotFoundError`, :class:`KeyError`
:class:`MissingFileError`       :class:`NotFoundError`, :class:`FileIoError`, :class:`FileNotFoundError`
:class:`MissingMemberError`     :class:`MissingNameError`, :class:`MissingFileError`
:class:`UsageError`             :class:`ValueError`
:class:`TargetExistsError`      :class:`UsageError`, :class:`FileExistsError`
:class:`FileIoError`            :class:`OSError`
:class:`AccessDeniedError`      :class:`FileIoError`, :class:`PermissionError`
:class:`ConnectionFailedError`  :class:`FileIoError`, :class:`ConnectionError`
==============================  ===========================================

An argument of a wrong type is a plain :class:`TypeError`, and an index out of range a plain :class:`IndexError`.
"""

from __future__ import annotations

import errno as _errno
from collections.abc import Iterable
from typing import Any

__all__ = [
    "AccessDeniedError",
    "ConnectionFailedError",
    "FileIoError",
    "FormatWarning",
    "HoldallError",
    "IntegrityError",
    "LimitError",
    "MalformedError",
    "MissingFileError",
    "MissingMemberError",
    "MissingNameError",
    "MissingPackageError",
    "NotFoundError",
    "TargetExistsError",
    "UnsupportedError",
    "UsageError",
]


def __dir__() -> list[str]:
    return sorted(__all__)


class HoldallError(Exception):
    """Anything that Holdall finds wrong."""

    #: Stable name of the rule that was broken.
    code: str
    #: Whose fault it is: ``"malformed"``, ``"integrity"``, ``"unsupported"``, ``"limit"``, ``"not_found"``,
    #: ``"misuse"``, ``"io"``.
    kind: str
    #: The file, as the caller named it.
    source: str | None
    #: Name of the tensor it is about.
    tensor: str | None
    #: Role of the component it is about.
    component: str | None
    #: The bytes of the file it is about: start and end.
    range: tuple[int, int] | None
    #: What to do about it.
    hint: str | None
    #: The same for programs: ``{"do": "raise_limit", "limit": "decoded_len", "at_least": 5000000000}``.
    remedies: list[dict[str, Any]]

    def __init__(
        self,
        message: str,
        *,
        code: str = "python/error",
        kind: str = "misuse",
        source: str | None = None,
        tensor: str | None = None,
        component: str | None = None,
        range: tuple[int, int] | None = None,
        hint: str | None = None,
        remedies: Iterable[dict[str, Any]] = (),
        errno: int | None = None,
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
        #: The number of the operating system's error, as in the module ``errno``.
        self.errno = _ERRNOS.get(type(self)) if errno is None else errno
        if isinstance(self, OSError):
            _fill(self, source, message)

    def __str__(self) -> str:
        # KeyError would show the text in quotes, OSError the number of the error.
        return f"{self._message}\nhint: {self.hint}" if self.hint else self._message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._message!r})"

    def __reduce__(self) -> Any:
        fields = {name: getattr(self, name) for name in _FIELDS}
        # Notes (``add_note``), and what else the caller has put into it.
        others = {name: value for name, value in vars(self).items() if name not in _FIELDS and name != "_message"}
        return _restored, (type(self), self._message, fields), others or None


_FIELDS = ("code", "kind", "source", "tensor", "component", "range", "hint", "remedies", "errno")


class MalformedError(HoldallError, ValueError):
    """The file breaks a rule of its format."""


class IntegrityError(HoldallError):
    """The file is well formed, but its bytes are not the ones that were written."""


class UnsupportedError(HoldallError, NotImplementedError):
    """The file, or what was asked of it, is outside what this version can do."""


class MissingPackageError(UnsupportedError, ImportError):
    """The call needs a Python package, or a newer version of one, that is not installed. The hint names it."""


class LimitError(HoldallError):
    """A number in the file is over a limit: see ``limits`` of :func:`holdall.open`."""


class NotFoundError(HoldallError):
    """Nothing has the name, path or address that was asked for: a :class:`MissingNameError` or a
    :class:`MissingFileError`."""


class MissingNameError(NotFoundError, KeyError):
    """No tensor, component, attribute, record member or the like has that name."""


class UsageError(HoldallError, ValueError):
    """The call asks for something that cannot be done."""


class FileIoError(HoldallError, OSError):
    """Reading or writing failed. ``errno`` and ``filename`` are those of :class:`OSError`, as far as they are known."""


class MissingFileError(NotFoundError, FileIoError, FileNotFoundError):
    """No file, folder or object has that path or address."""


class MissingMemberError(MissingNameError, MissingFileError):
    """The package or archive has no file of that path."""


class AccessDeniedError(FileIoError, PermissionError):
    """The file may not be read or written with the caller's permissions or credentials."""


class ConnectionFailedError(FileIoError, ConnectionError):
    """The host cannot be found or connected to, or does not answer in time."""


class TargetExistsError(UsageError, FileExistsError):
    """The file or folder to be written exists, and the call does not say that it may be replaced."""


class FormatWarning(UserWarning):
    """Something unusual about a file that does not make it bad. Holdall lists these (``File.warnings``) and does not
    show them; ``warnings.warn(warning)`` does."""

    #: Stable name.
    code: str
    #: The first case, in words.
    message: str
    #: The first tensor it is about, and its component.
    tensor: str | None
    component: str | None
    #: How many times it was found.
    count: int

    def __init__(
        self, code: str, message: str, tensor: str | None = None, component: str | None = None, count: int = 1
    ) -> None:
        super().__init__(code, message, tensor, component, count)
        self.code = code
        self.message = message
        self.tensor = tensor
        self.component = component
        self.count = count

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        fields = ("code", "message", "tensor", "component", "count")
        return f"FormatWarning({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"

    def __eq__(self, other: object) -> bool:
        return self.args == other.args if isinstance(other, FormatWarning) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.args)


_OF_KIND: dict[str, type[HoldallError]] = {
    "malformed": MalformedError,
    "integrity": IntegrityError,
    "unsupported": UnsupportedError,
    "limit": LimitError,
    "not_found": MissingNameError,
    "misuse": UsageError,
    "io": FileIoError,
}

#: Codes whose errors have a narrower class than that of their kind.
_OF_CODE: dict[str, type[HoldallError]] = {
    "archive/no-file": MissingMemberError,
    "http/failed": ConnectionFailedError,
    "links/no-address": MissingFileError,
    "links/offline": MissingFileError,
    "net/failed": ConnectionFailedError,
    "net/no-file": MissingFileError,
    "package/no-file": MissingMemberError,
    "package/place": TargetExistsError,
    "python/extra": MissingPackageError,
    "shards/missing": MissingFileError,
    "shards/no-model": MissingFileError,
    "shards/place": TargetExistsError,
    "stores/denied": AccessDeniedError,
    "stores/no-bucket": MissingFileError,
    "stores/no-object": MissingFileError,
    "write/exists": TargetExistsError,
}

#: The same of errors of the operating system, by ``errno``.
_OF_ERRNO: dict[int, type[HoldallError]] = {
    _errno.ENOENT: MissingFileError,
    _errno.EACCES: AccessDeniedError,
    _errno.EPERM: AccessDeniedError,
}

#: The ``errno`` of a class, if the operating system has not given one.
_ERRNOS: dict[type[HoldallError], int] = {
    MissingFileError: _errno.ENOENT,
    MissingMemberError: _errno.ENOENT,
    AccessDeniedError: _errno.EACCES,
    TargetExistsError: _errno.EEXIST,
}


def _fill(e: OSError, filename: str | None, strerror: str) -> None:
    e.filename = filename
    e.strerror = strerror


def _restored(of: type[HoldallError], message: str, fields: dict[str, Any]) -> HoldallError:
    """An error that was pickled or copied."""
    return of(message, **fields)


def _make(message: str, *, code: str, kind: str, errno: int | None = None, **fields: Any) -> HoldallError:
    """Returns an error of the class of its code, number or kind. The native half calls this."""
    of = _OF_CODE.get(code)
    if of is None and kind == "io" and errno is not None:
        of = _OF_ERRNO.get(errno)
    if of is None:
        of = _OF_KIND.get(kind, HoldallError)
    return of(message, code=code, kind=kind, errno=errno, **fields)
