"""This package in the place of `safetensors`, for all who import that."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution
from types import ModuleType
from typing import Any

__all__ = ["install", "uninstall"]

#: The release of `safetensors` whose behaviour this package has.
VERSION = "0.8.0"

_NAME = "safetensors"
#: What libraries call the native half of `safetensors`, if they do.
_NATIVE = f"{_NAME}._safetensors_rust"


def install() -> None:
    """From now on, ``import safetensors`` gives this package, in this process: also to libraries such as transformers,
    whether `safetensors` is installed or not. What was imported before keeps what it has, so call it first.

    A second call does nothing. :func:`uninstall` undoes it.
    """
    if _finder not in sys.meta_path:
        _before.update(_taken_out())
        sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """``import safetensors`` gives that package again. What was imported in between keeps what it has."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
        _taken_out()
        sys.modules.update(_before)
        _before.clear()


#: What was imported under the name before.
_before: dict[str, ModuleType] = {}


def _taken_out() -> dict[str, ModuleType]:
    """Takes `safetensors` and its modules out of those that are imported."""
    names = [name for name in sys.modules if name == _NAME or name.startswith(f"{_NAME}.")]
    return {name: sys.modules.pop(name) for name in names}


class _Ours(Loader):
    """Gives a module of this package under another name."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        # Whoever imports takes what is there in the end.
        sys.modules[name] = importlib.import_module(_target(name))


class _Finder(MetaPathFinder):
    """Finds `safetensors` here."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _NAME and not fullname.startswith(f"{_NAME}."):
            return None
        own = importlib.util.find_spec(_target(fullname))
        if own is None:
            return None
        return ModuleSpec(fullname, _Ours(), origin=own.origin, is_package=fullname == _NAME)

    def find_distributions(self, context: Any = None) -> Iterable[Distribution]:
        """What libraries ask for the version that is installed."""
        name = getattr(context, "name", None)
        return [_Release()] if name is not None and str(name).lower() == _NAME else []


class _Release(Distribution):
    """What is said to be installed."""

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{path}: {_NAME} is Holdall's here")


def _target(name: str) -> str:
    """The module of this package that has that name elsewhere."""
    here = __name__.rpartition(".")[0]
    return here if name in (_NAME, _NATIVE) else here + name.removeprefix(_NAME)


_finder = _Finder()
