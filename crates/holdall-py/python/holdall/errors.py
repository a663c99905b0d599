"""The exceptions of Holdall: one class for each kind of error, derived from the matching built-in exception.

Every error has a stable ``code`` (``"ztensor/manifest-bounds"``). If known, it also has the ``source``, ``tensor``,
``component`` and byte range (``range``, half-open) that it is about, and ``hint`` and ``remedies`` say what to do
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
    """The base class of all exceptions that Holdall raises."""

    #: The stable name of the rule that was broken.
    code: str
    #: The kind of error: ``"malformed"``, ``"integrity"``, ``"unsupported"``, ``"limit"``, ``"not_found"``,
    #: ``"misuse"``, ``"io"``.
    kind: str
    #: The file, as the caller named it.
    source: str | None
    #: The name of the tensor, if the error is about one.
    tensor: str | None
    #: The role of the component, if the error is about one.
    component: str | None
    #: The start and end of the bytes in the file, if the error is about some.
    range: tuple[int, int] | None
    #: A suggestion of what to do.
    hint: str | None
    #: Suggestions for programs: ``{"do": "raise_limit", "limit": "decoded_len", "at_least": 5000000000}``.
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
        #: The error number of the operating system, as in the module ``errno``.
        self.errno = _ERRNOS.get(type(self)) if errno is None else errno
        if isinstance(self, OSError):
            _fill(self, source, message)

    def __str__(self) -> str:
        # The str of KeyError would be quoted, and that of OSError would begin with the number.
        return f"{self._message}\nhint: {self.hint}" if self.hint else self._message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._message!r})"

    def __reduce__(self) -> Any:
        fields = {name: getattr(self, name) for name in _FIELDS}
        # Notes (``add_note``), and other attributes that the caller has set.
        others = {name: value for name, value in vars(self).items() if name not in _FIELDS and name != "_message"}
        return _restore, (type(self), self._message, fields), others or None


_FIELDS = ("code", "kind", "source", "tensor", "component", "range", "hint", "remedies", "errno")


class MalformedError(HoldallError, ValueError):
    """The file breaks a rule of its format."""


class IntegrityError(HoldallError):
    """The file is well formed, but its bytes do not match a digest or checksum."""


class UnsupportedError(HoldallError, NotImplementedError):
    """This version does not support the file or the operation."""


class MissingPackageError(UnsupportedError, ImportError):
    """The call needs a Python package, or a newer version of one, that is not installed. The hint names it."""


class LimitError(HoldallError):
    """A number in the file exceeds a limit: see ``limits`` of :func:`holdall.open`."""


class NotFoundError(HoldallError):
    """The requested name, path or address does not exist: a :class:`MissingNameError` or a
    :class:`MissingFileError`."""


class MissingNameError(NotFoundError, KeyError):
    """No tensor, component, attribute or record member has that name."""


class UsageError(HoldallError, ValueError):
    """The call is not valid, or asks for an impossible operation."""


class FileIoError(HoldallError, OSError):
    """Reading or writing failed. ``errno`` and ``filename`` are those of :class:`OSError`, if known."""


class MissingFileError(NotFoundError, FileIoError, FileNotFoundError):
    """No file, folder or object has that path or address."""


class MissingMemberError(MissingNameError, MissingFileError):
    """The package or archive has no file with that path."""


class AccessDeniedError(FileIoError, PermissionError):
    """The file may not be read or written with the caller's permissions or credentials."""


class ConnectionFailedError(FileIoError, ConnectionError):
    """The host cannot be found or connected to, or does not respond in time."""


class TargetExistsError(UsageError, FileExistsError):
    """The file or folder to be written exists, and the call does not allow to replace it."""


class FormatWarning(UserWarning):
    """An unusual property of a file that is not an error. Holdall lists these (``File.warnings``) and does not
    emit them; ``warnings.warn(warning)`` does."""

    #: The stable name.
    code: str
    #: A description of the first occurrence.
    message: str
    #: The tensor and component of the first occurrence.
    tensor: str | None
    component: str | None
    #: The number of occurrences.
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


_BY_KIND: dict[str, type[HoldallError]] = {
    "malformed": MalformedError,
    "integrity": IntegrityError,
    "unsupported": UnsupportedError,
    "limit": LimitError,
    "not_found": MissingNameError,
    "misuse": UsageError,
    "io": FileIoError,
}

#: Codes whose errors have a more specific class than that of their kind.
_BY_CODE: dict[str, type[HoldallError]] = {
    "archive/no-file": MissingMemberError,
    "http/failed": ConnectionFailedError,
    "links/no-address": MissingFileError,
    "links/offline": MissingFileError,
    "net/failed": ConnectionFailedError,
    "net/no-file": MissingFileError,
    "package/no-file": MissingMemberError,
    "package/target": TargetExistsError,
    "python/extra": MissingPackageError,
    "shards/missing": MissingFileError,
    "shards/no-model": MissingFileError,
    "shards/target": TargetExistsError,
    "stores/denied": AccessDeniedError,
    "stores/no-bucket": MissingFileError,
    "stores/no-object": MissingFileError,
    "write/exists": TargetExistsError,
}

#: More specific classes of operating system errors, by ``errno``.
_BY_ERRNO: dict[int, type[HoldallError]] = {
    _errno.ENOENT: MissingFileError,
    _errno.EACCES: AccessDeniedError,
    _errno.EPERM: AccessDeniedError,
}

#: The ``errno`` of a class, for errors to which the operating system has not given one.
_ERRNOS: dict[type[HoldallError], int] = {
    MissingFileError: _errno.ENOENT,
    MissingMemberError: _errno.ENOENT,
    AccessDeniedError: _errno.EACCES,
    TargetExistsError: _errno.EEXIST,
}


def _fill(e: OSError, filename: str | None, strerror: str) -> None:
    e.filename = filename
    e.strerror = strerror


def _restore(cls: type[HoldallError], message: str, fields: dict[str, Any]) -> HoldallError:
    """Restores an error that was pickled or copied."""
    return cls(message, **fields)


def _make(message: str, *, code: str, kind: str, errno: int | None = None, **fields: Any) -> HoldallError:
    """Returns an error of the class for its code, number or kind. The native half calls this."""
    cls = _BY_CODE.get(code)
    if cls is None and kind == "io" and errno is not None:
        cls = _BY_ERRNO.get(errno)
    if cls is None:
        cls = _BY_KIND.get(kind, HoldallError)
    return cls(message, code=code, kind=kind, errno=errno, **fields)
