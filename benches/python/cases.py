"""One measurement in a process of its own: `python cases.py CONTESTANT CASE FOLDER` prints seconds and peak memory.

A contestant is a class below; a case is a method of it, which gives what is timed. `make` writes the contestant's own
files. Only the package that a contestant is named after is imported.
"""

import gc
import json
import mmap
import os
import pathlib
import sys
import threading
import time

import numpy as np
import tables

#: Shapes of Llama-3.2-1B with 4 of its 16 layers, as float16: 1.01 GB.
WIDTH, HIDDEN, KV, VOCABULARY, LAYERS = 2048, 8192, 512, 128_256, 4
EMBEDDING = "model.embed_tokens.weight"
ONE = "model.layers.2.mlp.up_proj.weight"
ROWS = slice(5000, 5016)


def llama():
    shapes = {EMBEDDING: (VOCABULARY, WIDTH)}
    for layer in range(LAYERS):
        parts = {
            "input_layernorm": (WIDTH,),
            "mlp.down_proj": (WIDTH, HIDDEN),
            "mlp.gate_proj": (HIDDEN, WIDTH),
            "mlp.up_proj": (HIDDEN, WIDTH),
            "post_attention_layernorm": (WIDTH,),
            "self_attn.k_proj": (KV, WIDTH),
            "self_attn.o_proj": (WIDTH, WIDTH),
            "self_attn.q_proj": (WIDTH, WIDTH),
            "self_attn.v_proj": (KV, WIDTH),
        }
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in parts.items()}
    return weights(shapes | {"model.norm.weight": (WIDTH,)})


def small():
    return weights({f"layers.{i // 100}.experts.{i % 100:02}.weight": (40, 128) for i in range(51_000)})


def tiny():
    return weights({f"layers.{i // 100}.experts.{i % 100:02}.weight": (32,) for i in range(200_000)})


def weights(shapes):
    """Random numbers of a spread that weights have, repeated at odd distances."""
    pool = (np.random.default_rng(1).standard_normal(1 << 22, np.float32) * 0.02).astype(np.float16)
    out, at = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        out[name] = np.resize(np.roll(pool, -at) if size > pool.size else pool[at : at + size], shape)
        at = (at + size + 977) % (pool.size - 10_000)
    return out


MODELS = {"llama": llama, "small": small, "tiny": tiny}


class Contestant:
    """A package, and how its users do each thing."""

    #: What its files are called.
    suffix = ""

    def __init__(self, folder):
        self.folder = folder

    def path(self, model):
        return str(self.folder / f"{model}{self.suffix}")

    def make(self):
        for model, tensors in MODELS.items():
            path = pathlib.Path(self.path(model))
            if not path.exists():
                part = path.with_name("part-" + path.name)
                self.write(tensors(), str(part))
                part.rename(path)
        return lambda: None

    def load(self, model):
        return lambda: self.owned(self.path(model))

    def list(self, model):
        return lambda: self.names(self.path(model))

    def touch(self, model):
        return lambda: self.first_of_each(self.path(model))

    def one(self, model):
        return lambda: self.tensor(self.path(model), ONE)

    def rows(self, model):
        return lambda: self.rows_of(self.path(model), EMBEDDING)

    def save(self, model):
        tensors = MODELS[model]()
        out = str(self.folder / f"saved{self.suffix}")
        return lambda: self.write(tensors, out)


class Floor(Contestant):
    """The barest code that moves the same bytes, on as many threads as there are cores."""

    suffix = ".safetensors"

    def owned(self, path):
        out = np.empty(os.path.getsize(path), np.uint8)
        view, file = memoryview(out), os.open(path, os.O_RDONLY)

        def part(start, end):
            while start < end:
                start += os.preadv(file, [view[start : min(end, start + (8 << 20))]], start)

        cores = len(os.sched_getaffinity(0))
        step = -(-len(out) // cores)
        threads = [
            threading.Thread(target=part, args=(i * step, min(len(out), (i + 1) * step))) for i in range(cores)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        os.close(file)
        return out

    def write(self, tensors, path):
        with open(path, "wb", buffering=0) as file:
            for array in tensors.values():
                view = memoryview(array.reshape(-1).view(np.uint8))
                while view:
                    view = view[file.write(view) :]


class Holdall(Contestant):
    suffix = ".zt"
    format = "ztensor"

    def write(self, tensors, path):
        import holdall

        holdall.save(path, tensors, format=self.format, sync=False)

    def owned(self, path):
        import holdall

        return holdall.load(path)

    def names(self, path):
        import holdall

        with holdall.open(path) as f:
            return list(f)

    def first_of_each(self, path):
        import holdall

        with holdall.open(path) as f:
            return [t.numpy().flat[0] for t in f.values()]

    def tensor(self, path, name):
        import holdall

        with holdall.open(path) as f:
            return f[name].numpy(copy=True)

    def rows_of(self, path, name):
        import holdall

        with holdall.open(path) as f:
            return np.array(f[name][ROWS])


class HoldallSafetensors(Holdall):
    suffix = ".safetensors"
    format = "safetensors"

    def make(self):
        return lambda: None

    def save(self, model):
        self.suffix = ".holdall.safetensors"
        return super().save(model)


class HoldallZstd(Holdall):
    """Reads what ztensor 1.2.3 compressed."""

    suffix = ".12-zstd.zt"

    def make(self):
        return lambda: None


class Safetensors(Contestant):
    suffix = ".safetensors"
    framework = "numpy"

    def write(self, tensors, path):
        from safetensors.numpy import save_file

        save_file(tensors, path)

    def owned(self, path):
        from safetensors.numpy import load_file

        return load_file(path)

    def opened(self, path):
        from safetensors import safe_open

        return safe_open(path, framework=self.framework)

    def names(self, path):
        with self.opened(path) as f:
            return list(f.keys())

    def first_of_each(self, path):
        with self.opened(path) as f:
            return [f.get_slice(name)[0:1] for name in f.keys()]

    def tensor(self, path, name):
        with self.opened(path) as f:
            return f.get_tensor(name)

    def rows_of(self, path, name):
        with self.opened(path) as f:
            return f.get_slice(name)[ROWS]


class SafetensorsTorch(Safetensors):
    framework = "pt"

    def make(self):
        return lambda: None

    def owned(self, path):
        from safetensors.torch import load_file

        # What it loads looks into the map; a copy of each is owned, as everywhere here.
        return {name: tensor.clone() for name, tensor in load_file(path).items()}

    def first_of_each(self, path):
        with self.opened(path) as f:
            return [f.get_tensor(name).flatten()[0] for name in f.keys()]

    # What these give looks into the map as well.
    def tensor(self, path, name):
        return super().tensor(path, name).clone()

    def rows_of(self, path, name):
        return super().rows_of(path, name).clone()


class ZTensor12(Contestant):
    suffix = ".12.zt"
    compress = None

    def write(self, tensors, path):
        import ztensor

        with ztensor.Writer(path) as w:
            for name, array in tensors.items():
                w.write_numpy(name, array, compress=self.compress)

    def owned(self, path):
        from ztensor.numpy import load_file

        return load_file(path, copy=True)

    def names(self, path):
        import ztensor

        return list(ztensor.Reader(path).keys())

    def first_of_each(self, path):
        import ztensor

        reader = ztensor.Reader(path)
        return [reader.read_numpy(name).flat[0] for name in reader.keys()]

    def tensor(self, path, name):
        import ztensor

        return ztensor.Reader(path).read_numpy(name, copy=True)

    def rows_of(self, path, name):
        import ztensor

        return np.array(ztensor.Reader(path).read_numpy(name)[ROWS])


class ZTensor12Zstd(ZTensor12):
    suffix = ".12-zstd.zt"
    compress = 3

    def make(self):
        path = pathlib.Path(self.path("llama"))
        if not path.exists():
            self.write(llama(), str(path))
        return lambda: None


class ZTensor21(Contestant):
    suffix = ".21.zt"

    def write(self, tensors, path):
        from ztensor.numpy import save_file

        # In pages of 64 KiB, as otherwise, many small tensors would be 13 GB.
        save_file(tensors, path, align=4096 if len(tensors) > 1000 else None)

    def owned(self, path):
        from ztensor.numpy import load_file

        return {name: np.array(a) for name, a in load_file(path).items()}

    def names(self, path):
        import ztensor

        with ztensor.open(path) as f:
            return list(f.keys())

    def first_of_each(self, path):
        import ztensor

        with ztensor.open(path) as f:
            return [np.from_dlpack(t).flat[0] for t in f.values()]

    def tensor(self, path, name):
        import ztensor

        with ztensor.open(path) as f:
            return np.array(np.from_dlpack(f[name]))

    def rows_of(self, path, name):
        import ztensor

        with ztensor.open(path) as f:
            return np.array(np.from_dlpack(f[name])[ROWS])


CONTESTANTS = {
    "floor": Floor,
    "holdall": Holdall,
    "holdall, safetensors": HoldallSafetensors,
    "holdall, zstd": HoldallZstd,
    "safetensors": Safetensors,
    "safetensors, torch": SafetensorsTorch,
    "ztensor 1.2.3": ZTensor12,
    "ztensor 1.2.3, zstd": ZTensor12Zstd,
    "ztensor 2.1.2": ZTensor21,
    **tables.CONTESTANTS,
}
IMPORTS = {"holdall": "holdall", "safetensors": "safetensors.numpy", "ztensor": "ztensor.numpy", "pyarrow": "pyarrow"}


def memory_at_hand(size):
    """Takes memory and gives it back, so that a virtual machine has it, in large pages too."""
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as taken:
        taken.madvise(mmap.MADV_HUGEPAGE)
        for page in range(0, size, 4096):
            taken[page] = 1


def remember(path):
    """Has a file, or those of a folder, in the system's cache."""
    if os.path.isdir(path):
        for name in os.listdir(path):
            remember(os.path.join(path, name))
        return
    part = bytearray(8 << 20)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(part):
            pass


def forget(path):
    """Drops a file from the system's cache."""
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def main():
    name, case, folder = sys.argv[1:4]
    contestant = CONTESTANTS[name](pathlib.Path(folder))
    if case == "make":
        contestant.make()
        return
    if case == "import":
        start = time.perf_counter()
        __import__(IMPORTS[name])
        print(json.dumps({"seconds": time.perf_counter() - start, "memory": 0}))
        return
    kind, model, *cold = case.split()
    # Imports are not measured.
    for start, module in IMPORTS.items():
        if name.startswith(start):
            __import__("safetensors.torch" if name == "safetensors, torch" else module)
    work = getattr(contestant, kind)(model)
    if kind != "save":
        remember(contestant.path(model))
    if kind in ("load", "save"):
        memory_at_hand(3 << 29)
    else:
        # Short work is done once before: what a package does at its first call of all is not measured.
        work()
    if cold:
        forget(contestant.path(model))
    gc.collect()
    before = status("VmRSS" if kind == "save" else "RssAnon")
    if kind == "save":
        # From here on the peak is that of the work.
        pathlib.Path("/proc/self/clear_refs").write_text("5")
    start, busy = time.perf_counter(), time.process_time()
    kept = work()
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    # What a save needs at its peak; what a load leaves in memory of its own.
    memory = status("VmHWM" if kind == "save" else "RssAnon") - before
    del kept
    print(json.dumps({"seconds": seconds, "processor": busy, "memory": max(memory, 0)}))


def status(field):
    """Bytes, as the kernel counts them for this process."""
    return int(pathlib.Path("/proc/self/status").read_text().split(field + ":")[1].split()[0]) * 1024


if __name__ == "__main__":
    main()
