"""Files with functions and classes that are pickled by value, as cloudpickle and dill do it, and Keras models with Lambda layers: a scan must not
say `safe` of any.

    python3 functions.py SCANNER

SCANNER is the example `scan_many` of holdall-formats. What is not installed is left out, and said.
"""

from __future__ import annotations

import functools
import gzip
import io
import json
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile
import types
import zipfile
from typing import Any, Iterator

os.environ.setdefault("KERAS_BACKEND", "jax")
Case = tuple[str, bytes]
SEEN: list[int] = []
#: Code that is in no pickle: the scan says that it was not followed.
FILE = "keras: a file with a Lambda layer"


def values() -> Iterator[tuple[str, Any]]:
    """What can be pickled by value only."""
    x = 5

    class Own:
        def __call__(self, y: int) -> int:
            return x + y

    class Made(type):
        pass

    yield "a lambda", lambda y: y + 1
    yield "a closure", lambda y: x + y
    yield "one that imports", lambda: __import__("os").getpid()
    yield "a class", Own
    yield "an object of a class", Own()
    yield "a method", Own().__call__
    yield "a metaclass", Made("C", (), {})
    yield "a partial", functools.partial(lambda a, b: a, 1)
    yield "in a dict", {"weights": [1.0, 2.0], "activation": lambda y: max(y, 0)}
    yield "in a list", [1, (2, lambda: SEEN)]
    yield "a generator function", types.FunctionType((lambda: (yield)).__code__, {})
    yield "recursive", (lambda f: f)(lambda n: n and n - 1)


def pickled(name: str, dumps: Any, skips: tuple[type[BaseException], ...] = ()) -> Iterator[Case]:
    for what, value in values():
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            try:
                yield f"{name}: {what}, protocol {protocol}", dumps(value, protocol=protocol)
            except Exception as e:
                print(f"{name} does not pickle {what}: {e!r}"[:160])
                break


def keras_models() -> Iterator[Case]:
    """A model with a Lambda layer: its files, which have no pickles, and pickled."""
    import keras

    model = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda y: y * 2)])
    with tempfile.TemporaryDirectory() as folder:
        for name in ("model.keras", "model.h5"):
            path = pathlib.Path(folder) / name
            model.save(str(path))
            yield f"{FILE}, {name}", path.read_bytes()
    for name in ("cloudpickle", "dill", "pickle", "joblib"):
        try:
            module = __import__(name)
            if name == "joblib":
                out = io.BytesIO()
                module.dump(model, out)
                yield "keras by joblib", out.getvalue()
            else:
                yield f"keras by {name}", module.dumps(model)
        except Exception as e:
            print(f"{name} does not pickle a model of keras: {e!r}"[:160])


def packed(cases: Iterator[Case]) -> Iterator[Case]:
    for name, data in cases:
        yield name, data
        yield f"{name}, gzip", gzip.compress(data)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("archive/data.pkl", data)
            file.writestr("archive/version", "3\n")
        yield f"{name}, in a zip of torch", out.getvalue()


def cases() -> Iterator[Case]:
    for name in ("cloudpickle", "dill"):
        try:
            module = __import__(name)
        except ImportError:
            print(f"without {name}, which is not installed")
            continue
        yield from packed(pickled(name, module.dumps))
        if name == "dill":
            yield from packed(pickled("dill, recurse", functools.partial(module.dumps, recurse=True)))
            yield from packed(pickled("dill, by reference", functools.partial(module.dumps, byref=True)))
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "session.pkl"
                module.dump_module(str(path))
                yield "dill: a session", path.read_bytes()
    try:
        yield from packed(keras_models())
    except ImportError:
        print("without keras, which is not installed")


def main() -> None:
    all_cases = list(cases())
    frames = b"".join(struct.pack("<I", len(data)) + data for _, data in all_cases)
    done = subprocess.run([sys.argv[1]], input=frames, stdout=subprocess.PIPE, check=True)
    verdicts: dict[str, int] = {}
    failed = []
    for (name, _), line in zip(all_cases, done.stdout.splitlines(), strict=True):
        report = json.loads(line)
        verdicts[report["verdict"]] = verdicts.get(report["verdict"], 0) + 1
        if report["verdict"] not in ("suspicious", "dangerous") and not (name.startswith(FILE) and report["verdict"] == "unknown"):
            failed.append((name, report))
    for name, report in failed:
        print(name, report["verdict"], report["imports"], *report["unread"][:2], sep="\t")
    print(f"{len(all_cases)} files with functions by value, {len(failed)} of them not called out: {verdicts}")
    sys.exit(1 if failed or not all_cases else 0)


if __name__ == "__main__":
    main()
