"""Nested values of Python as tensors and one attribute of the file: docs/spec/values.md, section 1."""

from __future__ import annotations

import json
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _holdall
from ._encode import MASKED, free
from .errors import HoldallError, UsageError

if TYPE_CHECKING:
    from ._file import File

#: The attribute of the file that holds the structure.
TREE = "holdall.tree"
#: The formats that hold nested values.
FORMATS = ("ztensor", "ztensor2")
#: Types of values that are not arrays, and that only nested values contain.
PLAIN = frozenset((dict, OrderedDict, list, tuple, set, frozenset, str, bool, int, float, complex, type(None)))
#: Levels of nesting of the attribute.
DEPTH = 96

#: Nodes that refer to a tensor.
LEAVES = ("$tensor", "$array", "$scalar", "$bytes", "$bytearray")
_LISTS: dict[str, Callable[[Iterable[Any]], Any]] = {"$tuple": tuple, "$set": set, "$frozenset": frozenset}
_PAIRS: dict[str, Callable[[Iterable[Any]], Any]] = {"$dict": dict, "$ordered": OrderedDict}


def nested(tensors: Mapping[Any, Any]) -> tuple[Any, Any] | None:
    """Returns the first entry of a mapping that is not an array with a name; ``None`` if all entries are."""
    for name, value in tensors.items():
        if type(value) in PLAIN or type(name) in (int, bool, float, tuple, type(None)):
            return name, value
    return None


def flattened(tensors: Mapping[Any, Any]) -> tuple[dict[str, Any], Any]:
    """Returns the arrays in a nested value by name, and the structure around them.

    Raises:
        TypeError: a value or a key has a type that files do not hold. UsageError: the value is nested too deep.
    """
    made = _Flattening()
    kind = "$ordered" if type(tensors) is OrderedDict else "$dict"
    tree = made.pairs(kind, tensors.items(), (), DEPTH)
    return made.tensors, tree


class _Flattening:
    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self._taken: set[str] = set()

    def node(self, value: Any, path: tuple[str, ...], depth_left: int) -> Any:
        if depth_left <= 0:
            raise UsageError(
                f"`{_name(path[:4])}…` is nested too deep, or contains itself",
                code="python/nested",
                kind="misuse",
                hint=f"a value has at most about {DEPTH // 3} levels",
            )
        kind = type(value)
        if value is None or kind in (bool, float):
            return value
        if kind is str:
            return _text(value, path)
        if kind is int:
            if -(1 << 64) <= value < 1 << 64:
                return value
            try:
                return {"$integer": str(value)}
            except ValueError as e:
                raise UsageError(f"`{_name(path)}`: an integer is too long: {e}", code="python/nested", kind="misuse") from None
        if kind is complex:
            return {"$complex": [value.real, value.imag]}
        if kind is dict:
            return self.pairs("$dict", value.items(), path, depth_left)
        if kind is OrderedDict:
            return self.pairs("$ordered", value.items(), path, depth_left)
        if kind in (list, tuple):
            nodes = [self.node(item, (*path, str(at)), depth_left - 2) for at, item in enumerate(value)]
            return nodes if kind is list else {"$tuple": nodes}
        if kind in (set, frozenset):
            # Their order is that of hashes, which differs between processes.
            for item in value:
                _key(item, path)
            items = sorted(value, key=lambda item: (type(item).__name__, repr(item)))
            return {f"${kind.__name__}": [self.node(item, path, depth_left - 2) for item in items]}
        return self._leaf(value, path)

    def pairs(self, kind: str, items: Iterable[tuple[Any, Any]], path: tuple[str, ...], depth_left: int) -> Any:
        items = list(items)
        texts = {key for key, _ in items if type(key) is str}
        found = []
        for key, value in items:
            _key(key, path)
            if type(key) is str:
                _text(key, path)
            part = key if type(key) is str else _json(key)
            # The text of a key may be the JSON of another one.
            part = json.dumps(part) if type(key) is str and part not in ("",) and _is_json_of(part, items, texts) else part
            found.append([key, self.node(value, (*path, part), depth_left - 3)])
        if kind == "$dict" and len(texts) == len(items):
            # Formats may sort the keys of maps.
            keys = [key for key, _ in found]
            if keys == sorted(keys, key=lambda key: (len(key.encode()), key.encode())) and not any(key.startswith("$") for key in texts):
                return {key: value for key, value in found}
        return {kind: [[self.node(key, path, depth_left - 3), value] for key, value in found]}

    def _leaf(self, value: Any, path: tuple[str, ...]) -> Any:
        import numpy as np

        kind = "$array"
        if type(value) in (bytes, bytearray):
            kind = f"${type(value).__name__}"
            value = np.frombuffer(value, np.uint8)
        elif isinstance(value, np.generic):
            kind, value = "$scalar", np.asarray(value)
        elif type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "layout"):
            kind = "$tensor"
        elif not _is_array(value):
            cls = type(value)
            where = "" if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}."
            raise TypeError(
                f"`{_name(path)}` is of type {where}{cls.__qualname__}, which no tensor file holds: files hold arrays, and dicts, lists, "
                "tuples, sets, text, bytes, numbers, booleans and None around them"
            )
        name = free(_name(path), self._taken)
        self.tensors[name] = value
        return {kind: name}


def _is_array(value: Any) -> bool:
    from ._blob import Blob
    from ._datasets import Dataset, Runs
    from ._records import Records, Selection
    from ._sparse import is_scipy
    from ._tensor import Tensor

    if isinstance(value, (Tensor, Dataset, Runs, Records, Selection, Blob)) or is_scipy(value):
        return True
    if isinstance(value, type):
        return False
    if hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return True
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return True


def _key(key: Any, path: tuple[str, ...]) -> None:
    """Refuses keys, and elements of sets, that are not plain values or tuples of these."""
    if type(key) is tuple:
        for item in key:
            _key(item, path)
    elif key is not None and type(key) not in (str, bool, int, float):
        raise TypeError(
            f"a key or an element of a set in `{_name(path)}` is of type {type(key).__name__}: these are text, numbers, booleans, None or "
            "tuples of these"
        )


def _json(key: Any) -> str:
    return json.dumps(key, separators=(",", ":"), ensure_ascii=False)


def _is_json_of(text: str, items: list[tuple[Any, Any]], texts: set[str]) -> bool:
    return len(texts) < len(items) and any(type(key) is not str and _json(key) == text for key, _ in items)


def _text(text: str, path: tuple[str, ...]) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"a text in `{_name(path)}` has characters that no file holds: lone surrogates", code="python/nested", kind="misuse"
        ) from None
    return text


def _name(path: tuple[str, ...]) -> str:
    return ".".join(path)


class _Faulty(Exception):
    """A tensor of the structure cannot be loaded."""

    def __init__(self, error: HoldallError) -> None:
        self.error = error


class _InvalidTree(Exception):
    """The structure is invalid, or was written by a later version."""


class Tree:
    """The structure of the nested value that a file holds."""

    def __init__(self, tree: Any, source: str) -> None:
        self._tree = tree
        self._source = source
        #: The kinds of the tensors in it, by name.
        self.leaves: dict[str, str] = {}

    @staticmethod
    def of(file: File) -> Tree | None:
        """Returns the structure of a file; ``None`` if the file has only tensors by name. Warns about an invalid structure
        and returns ``None``."""
        found = _holdall.file_attribute(file._native, TREE)
        if found is None:
            return None
        tree = Tree(found, file.name)
        try:
            if not isinstance(found, dict):
                raise _InvalidTree("it is not a map")
            tree._build(found, tree._note)
        except (_InvalidTree, TypeError, ValueError, RecursionError) as e:
            tree.warn(f"the attribute `{TREE}` is not valid: {e}")
            return None
        return tree

    def warn(self, why: str) -> None:
        """Warns that the structure is not restored."""
        warnings.warn(f"{self._source}: tensors are returned by name, without their structure: {why}", stacklevel=5)

    def _note(self, kind: str, name: str) -> Any:
        self.leaves[name] = kind
        # A scalar may be a key.
        return 0

    def tensors(self, file: File) -> list[str]:
        """Returns the names of the tensors of a file that are not masks of others."""
        masked = [about[MASKED] for _, about in _holdall.noted(file._native) if isinstance(about.get(MASKED), dict)]
        masks = [about.get("mask") for about in masked]
        taken = {mask for mask in masks if isinstance(mask, str)}
        return [name for name in file if name not in taken]

    def fits(self, names: Iterable[str]) -> bool:
        """Returns whether the structure has exactly these tensors; warns if not."""
        found = set(names)
        other = sorted(found ^ set(self.leaves))
        if other:
            what = "does not contain" if other[0] in found else "names a missing tensor,"
            self.warn(f"the file was edited, and the structure {what} `{other[0]}`")
        return not other

    def restored(self, tensors: Mapping[str, Any], faults: Mapping[str, HoldallError]) -> Any:
        """Returns the nested value that was saved, with these tensors in it. A dict of which an entry cannot be loaded is
        a :class:`Loaded`."""

        def get(kind: str, name: str) -> Any:
            if name in faults:
                raise _Faulty(faults[name])
            value = tensors[name]
            if kind == "$scalar":
                return value[()]
            return bytes(value) if kind == "$bytes" else bytearray(value) if kind == "$bytearray" else value

        return self._build(self._tree, get)

    def _build(self, node: Any, get: Callable[[str, str], Any]) -> Any:
        if isinstance(node, list):
            return [self._build(item, get) for item in node]
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        if not isinstance(node, dict):
            raise _InvalidTree(f"it has a value of type {type(node).__name__}")
        special = [key for key in node if not isinstance(key, str) or key.startswith("$")]
        if not special:
            return self._dict(dict, node.items(), get)
        key, value = next(iter(node.items()))
        if len(node) != 1:
            raise _InvalidTree(f"a map has {key!r} among other keys")
        if key in LEAVES and isinstance(value, str):
            return get(key, value)
        if key in _LISTS and isinstance(value, list):
            return _LISTS[key](self._build(item, get) for item in value)
        if key in _PAIRS and isinstance(value, list):
            return self._dict(_PAIRS[key], [(self._build(k, get), v) for k, v in value], get)
        if key == "$integer" and isinstance(value, str):
            return int(value)
        if key == "$complex" and isinstance(value, list):
            return complex(*value)
        raise _InvalidTree(f"{key!r} is not known")

    def _dict(
        self, make: Callable[[Iterable[Any]], Any], nodes: Iterable[tuple[Any, Any]], get: Callable[[str, str], Any]
    ) -> Any:
        from ._restore import Loaded

        found, faults = [], {}
        for key, node in nodes:
            try:
                found.append((key, self._build(node, get)))
            except _Faulty as e:
                faults[key] = e.error
        return Loaded(dict(found), faults) if faults else make(found)

