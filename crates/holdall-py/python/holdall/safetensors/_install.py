"""Replaces the package `safetensors` by this one for all importers."""

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

#: The release of `safetensors` whose behaviour this package reproduces.
VERSION = "0.8.0"

_NAME = "safetensors"
#: The name of the native half of `safetensors`, which some libraries import.
_NATIVE = f"{_NAME}._safetensors_rust"


def install() -> None:
    """Makes ``import safetensors`` return this package in this process, also in libraries such as transformers,
    whether or not `safetensors` is installed. Modules that imported it earlier keep the original, so call this first.

    A second call has no effect. :func:`uninstall` reverts it.
    """
    if _finder not in sys.meta_path:
        _before.update(_taken_out())
        sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Makes ``import safetensors`` return the original package again. Modules that imported it in between keep
    this one."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
        _taken_out()
        sys.modules.update(_before)
        _before.clear()


#: The modules that were imported under that name before.
_before: dict[str, ModuleType] = {}


def _taken_out() -> dict[str, ModuleType]:
    """Removes `safetensors` and its modules from the imported modules, and returns them."""
    names = [name for name in sys.modules if name == _NAME or name.startswith(f"{_NAME}.")]
    return {name: sys.modules.pop(name) for name in names}


class _Ours(Loader):
    """Loads a module of this package under another name."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        # The import system returns the module that is registered at the end.
        sys.modules[name] = importlib.import_module(_target(name))


class _Finder(MetaPathFinder):
    """Finds `safetensors` in this package."""

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
        """Returns the installed distribution, for libraries that check the version."""
        name = getattr(context, "name", None)
        return [_Release()] if name is not None and str(name).lower() == _NAME else []


class _Release(Distribution):
    """The metadata of the distribution that appears to be installed."""

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{path}: {_NAME} is Holdall's here")


def _target(name: str) -> str:
    """Returns the name of the module in this package that replaces a module of `safetensors`."""
    here = __name__.rpartition(".")[0]
    return here if name in (_NAME, _NATIVE) else here + name.removeprefix(_NAME)


_finder = _Finder()
