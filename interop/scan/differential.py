"""What CPython would import, against what the scan says.

    python3 differential.py SCANNER [--count 1000000] [--seed 1] [--jobs 2]

SCANNER is the example `scan_many` of holdall-formats. Pickles of all protocols are generated and changed, put into containers, and
read by both of CPython's unpicklers, whose `find_class` records what is asked for and gives a class that does nothing, so that nothing
of a pickle runs. Whatever was asked for, the scan has to list, or it has to say that it did not follow everything.

Three classes of differences are excused, and written down in `docs/scan.md`: names that no module can have (`may_be_module`), imports
that only the unpickler in Python makes, which stand at the very start of a file and lead to no module that is known to be dangerous
(`is_slow_only`), and names that are listed as `?` because they are too long or only running the pickle would tell.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import json
import lzma
import multiprocessing
import pickle
import pickletools
import random
import resource
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, Callable

try:
    import zstandard
except ImportError:  # The rest is tried without it.
    zstandard = None  # type: ignore[assignment]

Name = tuple[str, str]


# What takes the place of everything that a pickle imports.


class Meta(type):
    def __setitem__(cls, key: Any, value: Any) -> None: ...
    def append(cls, *_: Any) -> None: ...
    def extend(cls, *_: Any) -> None: ...
    def add(cls, *_: Any) -> None: ...


class Inert(metaclass=Meta):
    def __new__(cls, *_: Any, **__: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def __call__(self, *_: Any, **__: Any) -> Any:
        return Inert()

    def __setstate__(self, *_: Any) -> None: ...
    def __setitem__(self, key: Any, value: Any) -> None: ...
    def append(self, *_: Any) -> None: ...
    def extend(self, *_: Any) -> None: ...
    def add(self, *_: Any) -> None: ...


class InC(pickle.Unpickler):
    names: list[Name]

    def find_class(self, module: str, name: str) -> Any:
        self.names.append((module, name))
        return Inert

    def persistent_load(self, pid: Any) -> Any:
        return Inert()


class InPython(pickle._Unpickler):  # type: ignore[name-defined]
    names: list[Name]

    def find_class(self, module: str, name: str) -> Any:
        self.names.append((module, name))
        return Inert

    def persistent_load(self, pid: Any) -> Any:
        return Inert()


def imports(cls: Any, data: bytes) -> list[Name]:
    """What unpickling `data` again and again asks for."""
    file, names = io.BytesIO(data), []
    for _ in range(50):
        unpickler = cls(file, encoding="latin1")
        unpickler.names = names
        try:
            unpickler.load()
        except BaseException:  # Whatever it is, it ends a program that does not expect it.
            break
    return names


# Pickles.

MODULES = ["os", "posix", "builtins", "subprocess", "sys", "mine", "collections", "torch", "numpy", "a.b", "nt", "ä", "x-y"]
NAMES = ["system", "eval", "Popen", "exit", "f", "OrderedDict", "Size", "dtype", "c.d", "é", "getattr", "Model"]
SAFE = [("collections", "OrderedDict"), ("torch._utils", "_rebuild_tensor_v2"), ("torch.jit._pickle", "build_intlist"),
        ("joblib.numpy_pickle", "NumpyArrayWrapper"), ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")]


def call(module: str, name: str) -> type:
    class Payload:
        def __reduce__(self) -> Any:
            return Global(module, name), ("true",)

    return Payload


class Global:
    """Written as an import, whatever there is to import."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


class Pickler(pickle._Pickler):  # type: ignore[name-defined]
    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if not isinstance(obj, Global):
            return super().save(obj, save_persistent_id)
        if self.proto >= 4:
            super().save(obj.module)
            super().save(obj.name)
            self.write(b"\x93")
        else:
            self.write(b"c" + obj.module.encode() + b"\n" + obj.name.encode() + b"\n")

    def save_reduce(self, func: Any, args: Any, *rest: Any, **named: Any) -> None:
        if not isinstance(func, Global):
            return super().save_reduce(func, args, *rest, **named)
        self.save(func)
        self.save(args)
        self.write(b"R")


def some_name(rng: random.Random) -> Name:
    return rng.choice(SAFE) if rng.random() < 0.3 else (rng.choice(MODULES), rng.choice(NAMES))


def some_object(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(18 if depth < 3 else 11)
    if kind < 11:
        return [
            None, True, rng.randrange(-5, 300), rng.randrange(-(1 << 70), 1 << 70), rng.random(), "ab\nc", "ä\u20ac" * rng.randrange(3),
            b"\x80\x02N." * rng.randrange(3), bytearray(b"x"), "os", call(*some_name(rng))(),
        ][kind]
    inside = [some_object(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 11:
        return inside
    if kind == 12:
        return tuple(inside)
    if kind == 13:
        return {str(at): value for at, value in enumerate(inside)}
    if kind == 14:
        return {at for at in range(len(inside))}
    if kind == 15:
        return OrderedDict(enumerate(inside))
    if kind == 16:
        return deque(inside)
    return pickle.dumps(len(inside), rng.randrange(6))


def written(rng: random.Random) -> bytes:
    out = io.BytesIO()
    Pickler(out, rng.randrange(6)).dump(some_object(rng))
    data = out.getvalue()
    if rng.random() < 0.2:
        try:
            data = pickletools.optimize(data)
        except Exception:
            pass
    return data


def text8(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


POOL: list[bytes] = []


def opcode(rng: random.Random) -> bytes:
    """An opcode out of some that were made beforehand, for making one takes long."""
    return rng.choice(POOL)


def new_opcode(rng: random.Random) -> bytes:
    """An opcode of any kind with an argument that fits it, more or less."""
    module, name = some_name(rng)
    text = rng.choice([module, name, "os", "system"]).encode()
    number = rng.choice([0, 1, 2, 3, 5, 255])
    key = rng.choice([b"0", b"-0", b" 1", b"0_1", b"+2", b"1\0x", b"007", b"99999999999999999999", b"1.0"])
    inner = rng.choice([b"\x80\x02N.", b"cos\nsystem\n)R.", b"\x80\x04\x8c\x02os\x8c\x06system\x93)R."])
    return rng.choice([
        b"(", b"(", b"0", b"1", b"2", b"N", b"N", b")", b"]", b"}", b"\x8f", b"a", b"e", b"s", b"u", b"t", b"l", b"d", b"\x85", b"\x86",
        b"\x87", b"\x88", b"\x90", b"\x91", b"\x94", b"\x94", b"R", b"R", b"R", b"b", b"o", b"\x81", b"\x92", b"Q", b".", b"\x97", b"\x98",
        b"\x93", b"\x93", b"\x93",
        b"K" + bytes([number]), b"M" + struct.pack("<H", number), b"J" + struct.pack("<i", number - 2), b"G" + struct.pack(">d", 1.5),
        b"h" + bytes([number]), b"q" + bytes([number]), b"j" + struct.pack("<I", number), b"r" + struct.pack("<I", number),
        b"g" + key + b"\n", b"p" + key + b"\n", b"I" + key + b"\n", b"L" + key + b"L\n", b"F" + key + b"\n", b"I01\n", b"I0x1f\n", b"Fnan\n",
        b"c" + module.encode() + b"\n" + name.encode() + b"\n", b"c" + module.encode() + b"\n" + name.encode() + b"\n",
        b"i" + module.encode() + b"\n" + name.encode() + b"\n", b"(i" + module.encode() + b"\n" + name.encode() + b"\n",
        b"S'" + text + b"'\n", b'S"\\x6f\\163"\n', b"S 'os'\n", b"V" + text + b"\n", b"V\\u006fs\n", b"Pid\n", b"V\\ud800\n",
        b"U" + bytes([len(text)]) + text, b"T" + struct.pack("<i", len(text)) + text,
        b"X" + struct.pack("<I", len(text)) + text, b"\x8c" + bytes([len(text)]) + text, b"\x8d" + text8(text),
        b"\x8c" + bytes([len(text)]) + text, b"\x8c\x02os", b"\x8c\x06system",
        b"C" + bytes([len(inner)]) + inner, b"B" + struct.pack("<I", len(inner)) + inner, b"\x8e" + text8(inner), b"\x96" + text8(inner),
        b"\x8a\x01" + bytes([number]), b"\x8b" + struct.pack("<i", 1) + bytes([number]), b"\x8a\x00",
        b"\x80" + bytes([rng.choice([0, 2, 3, 4, 5, 6])]), b"\x82" + bytes([number]), b"\x83\x00\x00", b"\x84" + struct.pack("<i", number),
        b"\x95" + struct.pack("<Q", rng.choice([0, 1, 2, 4, 8, 1 << 40])),
    ])


def generated(rng: random.Random) -> bytes:
    start = rng.choice([b"", b"", b"\x80\x02", b"\x80\x04", b"\x80\x05"])
    # Something on the stack makes it likelier that what follows does not raise.
    start += rng.choice([b"", b"N", b"NNN(", b"]N", b"(N", b"}", b"\x8c\x02os\x94\x8c\x06system\x94"])
    return start + b"".join(opcode(rng) for _ in range(rng.randrange(1, 16))) + rng.choice([b".", b".", b""])


def shaped(rng: random.Random) -> bytes:
    """Opcodes that keep to the rules of the stack, so that much of it is carried out."""
    out, depth = [rng.choice([b"", b"\x80\x02", b"\x80\x04"])], 0
    module, name = some_name(rng)
    for _ in range(rng.randrange(2, 14)):
        choice = rng.randrange(10)
        if choice < 4 or depth == 0:
            text = rng.choice([module, name, "os", "system"]).encode()
            out.append(rng.choice([b"N", b")", b"]", b"}", b"K\x01", b"\x8c" + bytes([len(text)]) + text, b"S'" + text + b"'\n",
                                   b"V" + text + b"\n", b"c" + module.encode() + b"\n" + name.encode() + b"\n", b"h\x00", b"g0\n"]))
            depth += 1
        elif choice < 6:
            out.append(rng.choice([b"\x94", b"q\x00", b"p0\n", b"p-0\n", b"2", b"\x85"]))
            depth += out[-1] == b"2"
        elif depth >= 2:
            out.append(rng.choice([b"R", b"\x81", b"\x93", b"a", b"b", b"\x86", b"0"]))
            depth -= 1
        else:
            out.append(b"cos\nsystem\n")
            depth += 1
    return b"".join(out) + b"."


def changed(rng: random.Random, data: bytes, other: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(out) + 1)
        how = rng.randrange(8)
        if how == 0 and at < len(out):
            out[at] = rng.randrange(256)
        elif how == 1 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif how == 2:
            out[at:at] = opcode(rng)
        elif how == 3:
            del out[at:at + rng.randrange(1, 4)]
        elif how == 4:
            del out[at:]
        elif how == 5:
            start = rng.randrange(len(other) + 1)
            out[at:at] = other[start:start + rng.randrange(40)]
        elif how == 6:
            out[at:at] = out[at:at + rng.randrange(20)]
        elif at < len(out):
            out[at] = rng.choice(b"(.012ab)]}cdeghijlopqrstuINKMJSTUVXR\x80\x81\x85\x8c\x93\x94\x95")
    return bytes(out)


def some_pickle(rng: random.Random) -> bytes:
    data = rng.choice([written, written, generated, shaped])(rng)
    if rng.random() < 0.5:
        data = changed(rng, data, rng.choice([written, shaped])(rng))
    if rng.random() < 0.1:
        data += some_pickle(rng)
    return data


# Containers, and how a loader gets at what is in them.


def npy(shape: str, descr: str, version: int) -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text


def in_zip(rng: random.Random, data: bytes) -> bytes:
    out = io.BytesIO()
    methods = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    method = rng.choices(methods, [50, 40, 5, 1])[0]
    with zipfile.ZipFile(out, "w", method) as file:
        info = zipfile.ZipInfo(rng.choice(["a/data.pkl", "x.npy", "weights", "d/"]))
        info.compress_type = method
        info.create_system = 3
        info.external_attr = rng.choice([0o100644, 0o120777, 0, 0o010644]) << 16
        file.writestr(info, data)
        if rng.random() < 0.3:
            file.writestr("other", b"x" * rng.randrange(50))
    return out.getvalue()


def in_tar(rng: random.Random, data: bytes) -> bytes:
    out = io.BytesIO()
    form = rng.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    with tarfile.open(fileobj=out, mode="w:", format=form) as file:
        info = tarfile.TarInfo(rng.choice(["pickle", "a" * 60 + "/" + "b" * 60, "x/y", "sys_info"]))
        info.size = len(data)
        info.type = rng.choice([b"0", b"0", b"0", b"\0", b"7", b"Z"])
        file.addfile(info, io.BytesIO(data))
    whole = bytearray(out.getvalue())
    if rng.random() < 0.3 and form == tarfile.USTAR_FORMAT:
        # A header from before there was a mark.
        whole[257:265] = bytes(8)
        whole[148:156] = b" " * 8
        whole[148:156] = b"%06o\0 " % sum(whole[:512])
    return bytes(whole)


def out_of_zip(data: bytes) -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return [got for got in (attempt(lambda info=info: file.read(info)) for info in file.infolist()) if got is not None]


def out_of_tar(data: bytes) -> list[bytes]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as file:
        found = []
        for info in file:
            if info.isreg() or info.type not in tarfile.SUPPORTED_TYPES:
                found.append(data[info.offset_data:info.offset_data + info.size])
        return found


def out_of_npy(data: bytes) -> list[bytes]:
    found = []
    while data[:6] == b"\x93NUMPY":
        start = 10 if data[6] == 1 else 12
        end = start + int.from_bytes(data[8:start], "little")
        if b"'|O'" in data[:end]:
            found.append(data[end:])
            break
        shape = eval(data[start:end].split(b"'shape': ")[1].split(b", }")[0], {})  # Written by `npy`.
        size = 8
        for dim in shape:
            size *= dim
        data = data[end + size:]
    return found + ([data] if data[:6] != b"\x93NUMPY" else [])


def partly(data: bytes, decompressor: Any) -> list[bytes]:
    out = b""
    for at in range(len(data)):
        try:
            out += decompressor.decompress(data[at:at + 1])
        except Exception:
            break
    return [out]


def attempt(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception:
        return None


def in_npy(rng: random.Random, data: bytes) -> bytes:
    before = npy("(3,)", "<f8", 1) + bytes(24) if rng.random() < 0.3 else b""
    return before + npy("(1,)", "|O", rng.choice([1, 2, 3])) + data


def in_npz(rng: random.Random, data: bytes) -> bytes:
    return in_zip(rng, in_npy(rng, data))


CONTAINERS: dict[str, tuple[Callable[[random.Random, bytes], bytes], Callable[[bytes], list[bytes]]]] = {
    "zip": (in_zip, out_of_zip),
    "tar": (in_tar, out_of_tar),
    "gzip": (lambda rng, data: gzip.compress(data, mtime=0), lambda data: partly(data, zlib.decompressobj(31))),
    "zlib": (lambda rng, data: zlib.compress(data, rng.randrange(10)), lambda data: partly(data, zlib.decompressobj())),
    "bz2": (lambda rng, data: bz2.compress(data), lambda data: partly(data, bz2.BZ2Decompressor())),
    "lzma": (lambda rng, data: lzma.compress(data, lzma.FORMAT_ALONE, preset=0),
             lambda data: partly(data, lzma.LZMADecompressor(lzma.FORMAT_AUTO))),
    "xz": (lambda rng, data: lzma.compress(data, preset=0), lambda data: partly(data, lzma.LZMADecompressor(lzma.FORMAT_XZ))),
    "npy": (in_npy, out_of_npy),
    "npz": (in_npz, lambda data: [each for one in out_of_zip(data) for each in out_of_npy(one)]),
}
if zstandard:
    CONTAINERS["zstd"] = (
        lambda rng, data: zstandard.ZstdCompressor(level=1).compress(data),
        lambda data: partly(data, zstandard.ZstdDecompressor().decompressobj()),
    )


def some_case(rng: random.Random) -> tuple[str, bytes, list[bytes]]:
    """The name of a kind, a file, and what a loader would unpickle of it."""
    data = some_pickle(rng)
    if rng.random() < 0.5:
        return "raw", data, [data]
    kind = rng.choice(list(CONTAINERS))
    pack, unpack = CONTAINERS[kind]
    whole = pack(rng, data)
    if rng.random() < 0.3 and kind not in ("npy", "npz"):
        at = rng.randrange(len(whole))
        whole = whole[:at] + bytes([rng.randrange(256)]) + whole[at + 1:]
        kind += ", changed"
    # Whatever it was meant to be, a loader may be given the file itself.
    return kind, whole, [whole] + (attempt(lambda: unpack(whole)) or [])


# The comparison.


def may_be_module(module: str) -> bool:
    first, _, rest = module.partition(".")
    if module == "NumpyArrayWrapper" or ("-" in first and "/" in rest):
        return False
    return first != "" and all(c.isalnum() or c in "_-" for c in first)


DANGEROUS = {"os", "posix", "nt", "builtins", "subprocess", "sys", "io", "types", "code"}


def is_slow_only(data: bytes, names_of_c: list[Name], name: Name) -> bool:
    """Whether only the unpickler in Python imports it, as the first that it does."""
    return data[:1] in (b"c", b"i") and name not in names_of_c and name[0].split(".")[0] not in DANGEROUS


def wanted(files: list[bytes]) -> set[Name]:
    out: set[Name] = set()
    for data in files:
        in_c = imports(InC, data)
        in_python = imports(InPython, data)
        for names in (in_c, in_python):
            for at, name in enumerate(names):
                if not may_be_module(name[0]):
                    # Importing fails here, so nothing that comes later takes place.
                    break
                if at == 0 and names is in_python and is_slow_only(data, in_c, name):
                    continue
                # Long names are listed by their first 256 characters.
                out.add((name[0][:256], name[1][:256]))
    return out


def batch(job: tuple[str, int, int]) -> tuple[Counter[str], list[dict[str, Any]]]:
    scanner, seed, count = job
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    misses = []
    POOL[:] = [new_opcode(rng) for _ in range(1000)]
    cases = [some_case(rng) for _ in range(count)]
    frames = b"".join(struct.pack("<I", len(whole)) + whole for _, whole, _ in cases)
    done = subprocess.run([scanner], input=frames, stdout=subprocess.PIPE, check=True)
    for (kind, whole, files), line in zip(cases, done.stdout.splitlines(), strict=True):
        report = json.loads(line)
        listed = {tuple(name) for name in report["imports"]}
        # A name that is too long, or that only running would tell, is listed as `?`.
        missing = {name for name in wanted(files) if name not in listed}
        counts[f"{kind}: {report['verdict']}"] += 1
        if missing and not report["open"] and not (report["verdict"] == "unknown"):
            if any("?" in name for name in listed):
                counts["not told by name"] += 1
                continue
            misses.append({"kind": kind, "seed": seed, "bytes": whole.hex(), "missing": sorted(missing), "said": report})
    return counts, misses


def limited() -> None:
    # The unpickler in C keeps a table as long as the largest number of its memo.
    resource.setrlimit(resource.RLIMIT_AS, (800 << 20, 800 << 20))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scanner")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    args = parser.parse_args()
    size = 1000
    jobs = [(args.scanner, args.seed * 1_000_000_007 + at, size) for at in range(-(-args.count // size))]
    counts: Counter[str] = Counter()
    misses: list[dict[str, Any]] = []
    start = time.monotonic()
    with multiprocessing.Pool(args.jobs, limited) as pool:
        for at, (some, missed) in enumerate(pool.imap_unordered(batch, jobs), 1):
            counts += some
            misses += missed
            for miss in missed:
                print(json.dumps(miss), flush=True)
            if at % 20 == 0:
                print(f"{at * size} files, {len(misses)} misses so far", file=sys.stderr, flush=True)
    for kind, count in sorted(counts.items()):
        print(f"{count:>9}  {kind}")
    total = len(jobs) * size
    print(f"{total} files, {len(misses)} misses, {time.monotonic() - start:.0f} s")
    sys.exit(1 if misses else 0)


if __name__ == "__main__":
    main()
