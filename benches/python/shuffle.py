"""Measures batches of records in random order for training, compared with other loaders, on the same records and in one run.

    cargo xtask python --release
    python3 benches/python/shuffle.py [--quick] [--only NAME,…] [--sizes BYTES,…] [--settings NAME,…] [--workers N,…]
        [--rounds N] [--write FILE]

An environment with torch and the peers is made in the folder at the first call (6 GB), and Holdall's newest wheel is installed
into it. Each size of a record has a dataset of its own for each contestant, deleted before the next size.
Contestants run one after the other, round after round, each in a process that has imported what it needs. A run is from opening
the dataset to the last batch of an epoch, or to the first batch after `--seconds` from the first (four times as long over HTTP): workers
start and files are fetched in that time. Every batch has 256 records, as tensors; each contestant is used as its documentation says, see
`shuffle_peers.py`.
Workers of `holdall` are threads (`holdall.torch.DataLoader`); those of all others, `holdall, processes` among them, are processes of
torch's `DataLoader`. `floor` is that loader with a dataset that yields the same tensors again and again.
`warm`: files are in the system's cache. `cold`: they were dropped from it before each run. `http`: they are on a server on
loopback that waits 20 ms before each response. `epoch`: records in order, warm.
LitData and MosaicML Streaming shuffle chunks and the records within them or near each other, and `datasets` over HTTP a buffer of 10,000
records; the others, and Holdall, shuffle all records among all.
"""

import argparse
import ctypes
import json
import mmap
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request

from shuffle_peers import CONTESTANTS, PACKAGES

HERE = pathlib.Path(__file__).parent
PEERS = (
    "torch==2.15.0",
    "torchdata==0.11.0",
    "pylance==14.0.2",
    "litdata==0.2.76",
    "mosaicml-streaming==0.13.0",
    "datasets==5.0.1",
    "pyarrow==26.0.1",
    "vortex-data==0.93.0",
    "aiohttp",
)
#: Bytes of a record, and how many there are.
SIZES = {64: 1_000_000, 512: 200_000, 4096: 60_000}
SETTINGS = ("warm", "cold", "http", "epoch")
LATENCY_MS = 20
#: What was written for whom.
FILES = {"lance, take": "lance", "holdall, processes": "holdall"}
HEADING = "## Shuffled batches"


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("target/bench-shuffle"))
    args.add_argument("--quick", action="store_true", help="20,000 records of each size, one round")
    args.add_argument("--only", help="names of contestants, separated by `;`")
    args.add_argument("--sizes", default="64,512,4096")
    args.add_argument("--settings", default=",".join(SETTINGS))
    args.add_argument("--workers", default="0,2")
    args.add_argument("--seconds", type=float, default=3.0, help="from the first batch of a run to its last")
    args.add_argument("--keep", action="store_true", help="datasets stay for the next call")
    args.add_argument("--python", type=pathlib.Path, help="one that has all packages: none is installed")
    args.add_argument("--results", type=pathlib.Path, help="where results are kept; those of an earlier call stay in it")
    args.add_argument("--note", default="", help="what else the section says about the run")
    args.add_argument("--write", type=pathlib.Path, help="the page whose section is replaced")
    args = args.parse_args()
    args.dir = args.dir.absolute()
    args.dir.mkdir(parents=True, exist_ok=True)
    python = (args.python or environment(args.dir / "venv")).absolute()
    only = [name.strip() for name in args.only.split(";")] if args.only else list(CONTESTANTS)
    results = json.loads(args.results.read_text()) if args.results and args.results.exists() else {}
    load = os.getloadavg()[1]
    for size in map(int, filter(None, args.sizes.split(","))):
        count = 20_000 if args.quick else SIZES[size]
        measure(args, python, only, size, count, results)
        if args.results:
            args.results.write_text(json.dumps(results, indent=1))
    section = report(results, python, args, load)
    if args.write:
        page = args.write.read_text()
        before, _, rest = page.partition(HEADING)
        rest = rest.partition("\n## ")
        args.write.write_text(before.rstrip() + "\n\n" + section + (rest[1] + rest[2] if rest[1] else ""))
    else:
        print(section)


def environment(folder):
    python, wanted = folder / "bin/python", "\n".join(PEERS)
    done = folder / "installed.txt"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not done.exists() or done.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([*pip, *PEERS], check=True)
        done.write_text(wanted)
    wheel = max(pathlib.Path("target/python-package/wheels").glob("*.whl"), key=os.path.getmtime)
    subprocess.run([*pip, "--force-reinstall", "--no-deps", wheel], check=True)
    return python


class Process:
    """A contestant that waits for what to do."""

    def __init__(self, python, name, log):
        self.name, self.log = name, log
        environ = os.environ | {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
        environ |= {"HF_DATASETS_DISABLE_PROGRESS_BARS": "1", "AWS_ALLOW_HTTP": "true"}
        self.process = subprocess.Popen(
            [python, HERE / "shuffle_peers.py", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(log, "a"),
            text=True,
            env=environ,
        )

    def do(self, **what):
        print(json.dumps(what), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"failed": f"ended: see {self.log}"}

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()


def measure(args, python, only, size, count, results):
    root = args.dir / f"data-{size}-{count}"
    shared = root / "files"
    shared.mkdir(parents=True, exist_ok=True)
    processes = {name: Process(python, name, args.dir / "log.txt") for name in only}
    server = subprocess.Popen(
        [sys.executable, HERE / "shuffle_server.py", shared, str(LATENCY_MS)], stdout=subprocess.PIPE, text=True
    )
    endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
    try:
        for name in list(processes):
            say(f"{size} B: writing for {name}")
            found = write(processes, name, shared / folder_of(name), size, count)
            if "failed" in found:
                print(f"\n{name}: {found['failed']}", file=sys.stderr)
                processes.pop(name).end()
        workers = [int(n) for n in args.workers.split(",")]
        of_size = results.setdefault(str(size), {})
        for name, process in processes.items():
            path = shared / folder_of(name)
            for n in workers:
                if f"resume {n}" in of_size.get(name, {}):
                    continue
                say(f"{size} B: {name} goes on, {n} workers")
                found = process.do(do="resume", path=str(path), size=size, workers=n)
                of_size.setdefault(name, {})[f"resume {n}"] = [found]
        for turn in range(1 if args.quick else args.rounds):
            for setting in args.settings.split(","):
                for n in workers:
                    for name, process in processes.items():
                        say(f"{size} B: {setting}, {n} workers: {name}, round {turn + 1}")
                        run = one(process, shared / folder_of(name), size, count, setting, n, args, endpoint)
                        of_size[name].setdefault(f"{setting} {n}", []).append(run)
    finally:
        say("")
        server.terminate()
        server.wait()
        for process in processes.values():
            process.end()
        if not args.keep:
            shutil.rmtree(root)


def folder_of(name):
    return FILES.get(name, name)


def write(processes, name, path, size, count):
    done = path.with_suffix(".done")
    if done.exists():
        return {}
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    writer = processes.get(folder_of(name), processes[name])
    found = writer.do(do="write", path=str(path), size=size, count=count)
    if "failed" not in found:
        for file in files(path):
            with open(file, "rb+") as file:
                os.fsync(file.fileno())
        done.touch()
    return found


def one(process, path, size, count, setting, workers, args, endpoint):
    what = {"do": "run", "path": str(path), "size": size, "setting": setting, "workers": workers, "cap": args.seconds}
    # Time to fetch a file, which some do before the first batch and some meanwhile.
    what["cap"] *= 4 if setting == "http" else 1
    what["most"] = -(-count // 256)
    if setting == "http":
        counts(endpoint)
        what |= {"cache": str(args.dir / f"cache-{process.name.replace(', ', '-')}"), "endpoint": endpoint, "key": path.name}
    still = None
    if setting == "cold":
        still = drop(path)
    else:
        for file in files(path):
            warm(file)
    run = process.do(**what)
    run["load"] = os.getloadavg()[0]
    if setting == "http":
        run |= counts(endpoint)
    if still is not None:
        run["resident"] = still
    if "failed" in run:
        print(f"\n{process.name}, {setting}, {workers}: {run['failed']}", file=sys.stderr)
    return run


def counts(endpoint):
    with urllib.request.urlopen(f"{endpoint}/-/counts", timeout=30) as answer:
        found = json.load(answer)
    return {"requests": found["requests"], "sent": found["bytes"]}


def files(path):
    return [file for file in sorted(path.rglob("*")) if file.is_file()]


def warm(file):
    with open(file, "rb", buffering=0) as file:
        while file.read(4 << 20):
            pass


def drop(path):
    """Drops a folder's files from the system's cache; returns the part of their pages that is still there."""
    of, there = 0, 0
    for file in files(path):
        with open(file, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            len = os.fstat(file.fileno()).st_size
            if len:
                a, b = pages(file, len)
                there, of = there + a, of + b
    return there / of if of else 0.0


def pages(file, len):
    """How many pages of a file are in the system's cache, and how many it has."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    count = -(-len // mmap.PAGESIZE)
    at = libc.mmap(None, len, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    found = ctypes.create_string_buffer(count)
    libc.mincore(at, len, found)
    libc.munmap(at, len)
    return sum(byte & 1 for byte in found.raw), count


def say(what):
    print(f"\r{what}\033[K", end="", file=sys.stderr, flush=True)


def rate(run):
    return run["rows"] / run["seconds"]


def rates(runs):
    return [rate(run) for run in runs or [] if "rows" in run]


def versions(python):
    script = "import importlib.metadata as m, sys; print(', '.join(f'{p} {m.version(p)}' for p in sys.argv[1:]))"
    packages = [*PACKAGES.values(), "torch", "numpy"]
    script = script.replace("f'{p} {m.version(p)}' for p in sys.argv[1:]", "f'{p} {m.version(p)}' for p in sys.argv[1:] if p in have")
    script = script.replace("print(", "have = {d.name for d in m.distributions()}; print(")
    return subprocess.run([python, "-c", script, *packages], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.machine())


def report(results, python, args, load):
    from shuffle_report import section

    about = f"{processor()}, {len(os.sched_getaffinity(0))} cores, {platform.system()} {platform.release()}"
    about = f"{time.strftime('%Y-%m-%d')}, {about}, Python {platform.python_version()}; {versions(python)}. "
    runs = [run for of in results.values() for all in of.values() for each in all.values() for run in each if "load" in run]
    loads = [run["load"] for run in runs] or [load, os.getloadavg()[1]]
    about += f"`--seconds {args.seconds:g}`. Load averages from {min(loads):.1f} to {max(loads):.1f}. {args.note}".rstrip()
    return section(HEADING, __doc__, about, results, SIZES, args)


if __name__ == "__main__":
    main()
