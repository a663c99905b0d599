"""Calls every name that the scan takes to be harmless, with objects that pretend to be arrays, classes and tensors.

    python3 audit.py

The names are read from the source of the scan. Each is called with objects whose attributes lead to an array somewhere in memory, and to a
function that is watched, as a pickle can make them; then items are set in what it gives. A name that writes to that memory has to be among those
that a pickle may only refer to, or call with nothing (`Use` in `names.rs`): `KEPT_FROM_CALLS`. Names that call what they are
given are listed, which is no failure: what a pickle names is judged by its own name.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import io
import pathlib
import pkgutil
import re
import signal
import sys
import warnings
from typing import Any, Iterator

import numpy as np
import sklearn

warnings.simplefilter("ignore")
FOLDER = pathlib.Path(__file__).parents[2] / "crates/holdall-formats/src/scan"
KEPT_FROM_CALLS = ("numpy.", "scipy.", "torch.", "ml_dtypes.")
CALLED = ("numpy.core.", "numpy._core.", "numpy.random.", "numpy.dtype", "torch._", "torch.Size", "torch.device", "torch.nn.", "torch.jit.")
MEMORY = ctypes.create_string_buffer(b"A" * 64)
called: list[str] = []
now = ""


def block(text: str, start: str) -> str:
    text = text[text.index(start):]
    return text[:text.index("\n];")]


def listed(text: str, start: str) -> Iterator[tuple[str, str]]:
    for modules, names in re.findall(r"\(\s*&\[(.*?)\],\s*&\[(.*?)\],?\s*\)", block(text, start), re.S):
        for module in re.findall(r'"([^"]+)"', modules):
            for name in re.findall(r'"([^"]+)"', names):
                yield module, name


def of_sklearn(names: list[str]) -> Iterator[tuple[str, str]]:
    seen = set()
    for found in pkgutil.walk_packages(sklearn.__path__, "sklearn."):
        if any(part in found.name for part in (".tests", "externals", "conftest")):
            continue
        try:
            module = importlib.import_module(found.name)
        except BaseException:
            continue
        for name in names:
            value = getattr(module, name, None)
            if value is not None and id(value) not in seen:
                seen.add(id(value))
                yield found.name, name
    missing = set(names) - {name for module in list(sys.modules.values()) for name in names if hasattr(module, name)}
    print("not in this version:", *sorted(missing))


def watched(*_: Any, **__: Any) -> Any:
    if now not in called:
        called.append(now)
    return pretender()


def pretender() -> Any:
    out = argparse.Namespace()
    array = {"shape": (8,), "typestr": "<f8", "data": (ctypes.addressof(MEMORY), False), "version": 3}
    out.__dict__.update({"__array_interface__": array, "__new__": watched, "__array__": watched})
    out.__dict__.update(dtype=np.dtype("f8"), keys=watched, detach=watched, pop=watched, mean=watched)
    return out


def late(*_: Any) -> None:
    raise TimeoutError


def writes(run: Any) -> bool:
    before = MEMORY.raw
    for args in [(), (pretender(),), (pretender(), pretender()), (pretender(), 0), ([pretender()],), (pretender(), "f8"), (watched, ()),
                 ((pretender(), np.arange(8), np.arange(9)),), (np.dtype("f8"), pretender()), (watched, watched, ())]:
        signal.alarm(5)
        # Whatever it raises, it is what a pickle would end with.
        with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
            out = run(*args)
            for key in (0, "x", (0, 0)):
                with contextlib.suppress(Exception):
                    out[key] = 1.0
            with contextlib.suppress(Exception):
                out.append(1.0)
        signal.alarm(0)
    if MEMORY.raw == before:
        return False
    MEMORY.raw = before
    return True


def main() -> None:
    global now
    signal.signal(signal.SIGALRM, late)
    names, science = (FOLDER / "names.rs").read_text(), (FOLDER / "names/science.rs").read_text()
    ours = re.findall(r'"([^"]+)"', block(science, "const SKLEARN"))
    all_names = [*listed(names, "const SAFE"), *listed(science, "const LISTED"), *of_sklearn(ours)]
    bad, tried = [], 0
    for module, name in all_names:
        try:
            run = getattr(importlib.import_module(module), name)
        except BaseException:
            continue
        now, tried = f"{module}.{name}", tried + 1
        if writes(run) and (now.startswith(CALLED) or not now.startswith(KEPT_FROM_CALLS)):
            bad.append(now)
    print("call what they are given:", *called)
    print(f"{tried} of {len(all_names)} names were called; these write to memory: {bad}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
