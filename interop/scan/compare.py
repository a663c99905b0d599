"""Our scan beside picklescan, modelscan and fickling, on files that run something when they are loaded and on files that do not.

    python3 compare.py SCANNER BENIGN [--count 2000] [--seed 1]

SCANNER is the example `scan_many` of holdall-formats; BENIGN is a folder that `benign.py --keep` wrote. The others are called in this
process, in the way their own commands do, with their default settings. Of each file a scanner raises an alarm, says that it cannot
tell (an error, a file that it skips), or says nothing against it. The table is in Markdown.
"""

from __future__ import annotations

import argparse
import bz2
import contextlib
import gzip
import importlib.metadata
import io
import json
import logging
import lzma
import pathlib
import pickle
import random
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
import zipfile
import zlib
from collections import Counter
from typing import Any, Callable, Iterator

from differential import Global, Pickler, npy

warnings.simplefilter("ignore")
TELLS = ("alarm", "cannot tell", "nothing")

# Files that run something.

TARGETS = [
    ("os", "system"), ("posix", "system"), ("nt", "system"), ("subprocess", "Popen"), ("subprocess", "check_output"), ("builtins", "eval"),
    ("builtins", "exec"), ("builtins", "__import__"), ("builtins", "getattr"), ("runpy", "run_path"), ("importlib", "import_module"),
    ("socket", "create_connection"), ("shutil", "rmtree"), ("webbrowser", "open"), ("pty", "spawn"), ("code", "InteractiveInterpreter"),
    ("operator", "attrgetter"), ("functools", "partial"), ("pickle", "loads"), ("torch", "load"), ("numpy", "load"), ("pydoc", "pipepager"),
    ("timeit", "timeit"), ("cProfile", "run"), ("asyncio", "create_subprocess_shell"), ("ctypes", "CDLL"), ("torch.hub", "load"),
    ("joblib", "load"), ("dill", "loads"), ("cloudpickle", "loads"),
]


class Payload:
    def __init__(self, module: str, name: str) -> None:
        self.names = module, name

    def __reduce__(self) -> Any:
        return Global(*self.names), ("true",)


def written(rng: random.Random, target: tuple[str, str]) -> bytes:
    out = io.BytesIO()
    Pickler(out, rng.randrange(6)).dump(rng.choice([Payload(*target), {"weights": [1.0, 2.0], "x": Payload(*target)}]))
    return out.getvalue()


def spelt(rng: random.Random, target: tuple[str, str]) -> bytes:
    """A pickle as no program writes it, which imports and calls all the same."""
    module, name = (part.encode() for part in target)
    text = lambda text: b"\x8c" + bytes([len(text)]) + text
    return rng.choice([
        b"(S'true'\ni" + module + b"\n" + name + b"\n.",
        b"(c" + module + b"\n" + name + b"\nS'true'\no.",
        b"\x80\x04" + text(name) + b"\x94" + text(module) + b"\x94h\x01h\x00\x93)R.",
        b"V" + module + b"\np7\nV" + name + b"\np8\n00g7\ng8\n\x93)R.",
        b"\x80\x02c" + module + b"\n" + name + b"\n)R0N.",
        b"\x80\x04" + text(module) + text(name) + b"\x93)}\x92.",
    ])


def broken(rng: random.Random, target: tuple[str, str]) -> bytes:
    """It raises after it has run."""
    return b"c" + target[0].encode() + b"\n" + target[1].encode() + b"\n)R" + rng.choice([b"", b"\xff", b"0.", b"h\x63."])


def zipped(data: bytes, name: str, method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        file.writestr(name, data)
        file.writestr("archive/version", b"3\n")
    return out.getvalue()


def tarred(data: bytes, name: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        file.addfile(info, io.BytesIO(data))
    return out.getvalue()


COMMON: list[tuple[str, str, Callable[[bytes], bytes]]] = [
    ("pickle", ".pkl", lambda data: data),
    (".pt", ".pt", lambda data: zipped(data, "archive/data.pkl")),
    (".npy", ".npy", lambda data: npy("(1,)", "|O", 1) + data),
    (".npz", ".npz", lambda data: zipped(npy("(1,)", "|O", 1) + data, "a.npy", zipfile.ZIP_DEFLATED)),
]
OTHER: list[tuple[str, str, Callable[[bytes], bytes]]] = [
    ("second pickle", ".pkl", lambda data: pickle.dumps(1) + data),
    ("second array", ".npy", lambda data: npy("(3,)", "<f8", 1) + bytes(24) + npy("(1,)", "|O", 1) + data),
    ("tar", ".tar", lambda data: tarred(data, "model.pkl")),
    ("gzip", ".pkl.gz", lambda data: gzip.compress(data)),
    ("joblib, zlib", ".joblib", zlib.compress),
    ("joblib, bzip2", ".joblib", bz2.compress),
    ("joblib, xz", ".joblib", lzma.compress),
    ("other name in .pt", ".pt", lambda data: zipped(data, "archive/weights")),
    ("zip in zip", ".zip", lambda data: zipped(zipped(data, "archive/data.pkl"), "model.pt")),
    ("other extension", ".dat", lambda data: data),
]


def dangerous(count: int, rng: random.Random) -> Iterator[tuple[str, str, bytes]]:
    """A kind, an extension and the bytes."""
    for at in range(count):
        target = rng.choice(TARGETS)
        if at % 2 == 0:
            _, extension, pack = COMMON[at // 2 % len(COMMON)]
            yield "common", extension, pack(written(rng, target))
        else:
            make = rng.choice([written, spelt, broken])
            _, extension, pack = rng.choice(OTHER if make is written else OTHER + COMMON)
            yield "unusual", extension, pack(make(rng, target))


# Scanners.


def by_holdall(scanner: str, paths: list[pathlib.Path]) -> Iterator[str]:
    files = [path.read_bytes() for path in paths]
    frames = b"".join(struct.pack("<I", len(data)) + data for data in files)
    done = subprocess.run([scanner], input=frames, stdout=subprocess.PIPE, check=True)
    tells = {"safe": "nothing", "no pickles": "nothing", "unknown": "cannot tell"}
    for line in done.stdout.splitlines():
        yield tells.get(json.loads(line)["verdict"], "alarm")


def picklescan() -> Callable[[pathlib.Path], str]:
    from picklescan.scanner import scan_file_path

    def tell(path: pathlib.Path) -> str:
        found = scan_file_path(str(path))
        if found.issues_count:
            return "alarm"
        # Names that it calls suspicious are no issues, unless it is strict.
        return "cannot tell" if found.scan_err or found.suspicious_count or not found.scanned_files else "nothing"

    return tell


def modelscan() -> Callable[[pathlib.Path], str]:
    from modelscan.modelscan import ModelScan

    def tell(path: pathlib.Path) -> str:
        scan = ModelScan()
        scan.scan(path)
        if scan.issues.all_issues:
            return "alarm"
        return "nothing" if not scan.errors and scan.scanned else "cannot tell"

    return tell


def fickling() -> Callable[[pathlib.Path], str]:
    from fickling.loader import scan_file, scan_zip_archive

    def tell(path: pathlib.Path) -> str:
        found = list(scan_zip_archive(str(path)).values()) if zipfile.is_zipfile(path) else [scan_file(str(path))]
        if any(not one.is_safe for one in found):
            return "alarm"
        return "nothing" if found and not any(one.errors for one in found) else "cannot tell"

    return tell


class Late(BaseException):
    pass


def late(*_: Any) -> None:
    raise Late


def tells(tell: Callable[[pathlib.Path], str], paths: list[pathlib.Path]) -> Iterator[str]:
    signal.signal(signal.SIGALRM, late)
    for path in paths:
        signal.alarm(10)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                verdict = tell(path)
        except (Exception, Late):
            verdict = "cannot tell"
        signal.alarm(0)
        yield verdict


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scanner")
    parser.add_argument("benign", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=2000, help="of each set")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        sets: dict[str, list[pathlib.Path]] = {"common": [], "unusual": [], "benign": []}
        for at, (kind, extension, data) in enumerate(dangerous(args.count, rng)):
            path = pathlib.Path(folder, f"{at:05}{extension}")
            path.write_bytes(data)
            sets[kind].append(path)
        benign = sorted(path for path in args.benign.iterdir() if path.stat().st_size < 4 << 20)
        sets["benign"] = sorted(rng.sample(benign, min(args.count, len(benign))))
        scanners: list[tuple[str, Callable[[list[pathlib.Path]], Iterator[str]]]] = [
            ("holdall", lambda paths: by_holdall(args.scanner, paths)),
        ]
        for make in (picklescan, modelscan, fickling):
            name = make.__name__
            scanners.append((f"{name} {importlib.metadata.version(name)}", lambda paths, tell=make(): tells(tell, paths)))
        print("| | " + " | ".join(f"{kind}: {tell}" for kind in sets for tell in TELLS) + " | seconds |")
        print("| --- " * (2 + len(sets) * len(TELLS)) + "|")
        for name, scan in scanners:
            start, row = time.monotonic(), []
            for paths in sets.values():
                counts = Counter(scan(paths))
                row += [str(counts[tell]) for tell in TELLS]
            print(f"| {name} | " + " | ".join(row) + f" | {time.monotonic() - start:.0f} |", flush=True)
        print("files: " + ", ".join(f"{len(paths)} {kind}" for kind, paths in sets.items()))


if __name__ == "__main__":
    main()
