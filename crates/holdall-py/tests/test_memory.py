"""Lifetimes, leaks, threads, the GIL, Ctrl-C."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import holdall

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")


def maps(path):
    return sum(str(path) in line for line in pathlib.Path("/proc/self/maps").read_text().splitlines())


def rss():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@LINUX
def test_the_map_lives_as_long_as_its_last_view(zt, arrays):
    f = holdall.open(zt, io="map")
    assert maps(zt) == 1
    a = f["w"].numpy()
    row = f["w"][3]
    capsule = f["w"].__dlpack__(max_version=(1, 0))
    d = np.from_dlpack(f["ids"])
    view = f["w"].components["data"].bytes()
    f.close()
    del f
    for name in ("a", "row", "capsule", "d"):
        gc.collect()
        assert maps(zt) == 1, name
        if name == "a":
            assert np.array_equal(a, arrays["w"])
            del a
        elif name == "row":
            assert np.array_equal(row, arrays["w"][3])
            del row
        elif name == "capsule":
            del capsule
        else:
            assert np.array_equal(d, arrays["ids"])
            del d
    assert maps(zt) == 1
    view.release()
    gc.collect()
    assert maps(zt) == 0


@LINUX
def test_nothing_leaks(tmp_path):
    big = {f"t{i}": np.full(1 << 16, i, np.float64) for i in range(8)}
    path = tmp_path / "a.zt"
    holdall.save(path, big)
    data = path.read_bytes()
    sys_count = sys.getrefcount(data)

    def once():
        with holdall.open(path) as f:
            f["t1"].numpy(), f["t1"].numpy(copy=True), f["t2"][3:9], f.load(), np.from_dlpack(f["t3"])
            f["t3"].__dlpack__(max_version=(1, 0)), f["t3"].__dlpack__(), f["t1"].stats(), f.verify()
            out = np.empty(1 << 16)
            f["t1"].read_into(out)
            assert f["nope" if "nope" in f else "t0"].numpy()[0] == 0
            try:
                f["none"]
            except KeyError:
                pass
        with holdall.open(data) as f:
            f["t1"].numpy()
        holdall.save(tmp_path / "b.zt", big, sync=False)
        try:
            holdall.load_into(path, {"t1": np.empty(1)})
        except ValueError:
            pass

    for _ in range(5):
        once()
    gc.collect()
    before, fds = rss(), len(os.listdir("/proc/self/fd"))
    for _ in range(40):
        once()
    gc.collect()
    assert maps(path) == 0
    assert len(os.listdir("/proc/self/fd")) <= fds
    assert sys.getrefcount(data) == sys_count
    assert rss() - before < 24 << 20, rss() - before


def test_memory_in_bytes_is_not_copied(zt):
    data = zt.read_bytes()
    before = sys.getrefcount(data)
    f = holdall.open(data)
    a = f["w"].numpy()
    start = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    assert start <= a.__array_interface__["data"][0] < start + len(data)
    f.close()
    del f
    assert sys.getrefcount(data) > before
    del a
    gc.collect()
    assert sys.getrefcount(data) == before


def test_a_bytearray_may_change_afterwards(zt, arrays):
    data = bytearray(zt.read_bytes())
    f = holdall.open(data)
    data[:] = bytes(len(data))
    data.clear()
    assert np.array_equal(f["w"], arrays["w"])


def test_many_threads_read_one_file(zt, arrays):
    f = holdall.open(zt)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(60):
            name = ["w", "ids", "half", "mask"][rng.integers(0, 4)]
            t, a = f[name], arrays[name]
            how = rng.integers(0, 5)
            found = [t.numpy, lambda: t.numpy(copy=True), lambda: f.load([name])[name], lambda: t[...],
                     lambda: np.from_dlpack(t)][how]()  # fmt: skip
            if not np.array_equal(found, a):
                wrong.append(name)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_closing_under_readers(zt, arrays):
    for _ in range(20):
        f = holdall.open(zt)
        t = f["w"]
        odd = []

        def read():
            for _ in range(50):
                try:
                    if not np.array_equal(t.numpy(copy=True), arrays["w"]):
                        odd.append("bytes")
                except holdall.UsageError as e:
                    if e.code != "python/closed":
                        odd.append(e)
                    return

        threads = [threading.Thread(target=read) for _ in range(4)]
        [x.start() for x in threads]
        f.close()
        [x.join() for x in threads]
        assert not odd


def test_threads_that_share_a_writer(tmp_path):
    w = holdall.Writer(tmp_path / "a.zt")
    done = []

    def write(i):
        for k in range(50):
            try:
                w.add(f"{i}.{k}", np.full(100, i))
                done.append((i, k))
            except holdall.UsageError:
                pass

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    w.close()
    for name, a in holdall.load(tmp_path / "a.zt").items():
        assert (a == int(name.partition(".")[0])).all()


def big_file(tmp_path, mb=192):
    path = tmp_path / "big.zt"
    rng = np.random.default_rng(0)
    part = rng.standard_normal(1 << 20).astype(np.float32)
    holdall.save(path, {f"t{i}": part + np.float32(i) for i in range(mb // 4)}, encoding="zstd", level=1, sync=False)
    return path


def test_the_gil_is_released(tmp_path):
    path = big_file(tmp_path)
    out = tmp_path / "copy.zt"
    for work in (
        lambda: holdall.load(path),
        lambda: holdall.verify(path),
        lambda: holdall.convert(path, out, encoding="raw", overwrite=True, sync=False),
        lambda: holdall.diff(path, path, rtol=1.0),
    ):
        ticks, stop = [], threading.Event()

        def tick():
            while not stop.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        start = time.perf_counter()
        work()
        end = time.perf_counter()
        stop.set()
        thread.join()
        during = [t for t in ticks if start <= t <= end]
        # Held all along, there would be one tick or two.
        assert len(during) >= 5 or end - start < 0.02, (len(during), end - start)


def test_progress(tmp_path):
    path = big_file(tmp_path, 64)
    for work in (
        lambda p: holdall.load(path, progress=p),
        lambda p: holdall.verify(path, progress=p),
        lambda p: holdall.convert(path, tmp_path / "b.zt", overwrite=True, progress=p),
        lambda p: holdall.diff(path, tmp_path / "b.zt", rtol=1e-9, progress=p),
        lambda p: holdall.save(tmp_path / "c.zt", holdall.load(path), progress=p),
    ):
        seen = []
        work(lambda done, total: seen.append((done, total)))
        assert seen and seen[-1][0] == seen[-1][1] > 0
        assert all(a[0] <= b[0] for a, b in zip(seen, seen[1:]))

        def fail(done, total):
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            work(fail)
        with pytest.raises(TypeError):
            work(3)
        with pytest.raises(TypeError):
            work(lambda: None)
    assert np.array_equal(holdall.load(path)["t0"], holdall.load(tmp_path / "b.zt")["t0"])


def test_a_cancelled_conversion_leaves_nothing(tmp_path):
    path = big_file(tmp_path, 64)
    before = sorted(p.name for p in tmp_path.iterdir())

    def fail(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        holdall.convert(path, tmp_path / "b.zt", encoding="raw", overwrite=True, progress=fail)
    assert sorted(p.name for p in tmp_path.iterdir()) == before


@LINUX
def test_ctrl_c_ends_long_work(tmp_path):
    """Statistics of much, in a process of its own that is interrupted."""
    path = tmp_path / "much.zt"
    part = np.zeros(1 << 24, np.uint8)
    holdall.save(path, {f"t{i}": part + np.uint8(i) for i in range(8)}, encoding="zstd", level=19, sync=False)
    code = (
        "import holdall, signal\n"
        # Whoever runs this in the background has it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "print('go', flush=True)\n"
        "try:\n"
        f"    while True: holdall.verify({str(path)!r})\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped', flush=True)\n"
    )
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "go\n"
    time.sleep(0.5)
    start = time.perf_counter()
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert out == "stopped\n" and run.returncode == 0
    assert time.perf_counter() - start < 20


def test_reading_while_the_interpreter_ends(zt):
    """Arrays, capsules and files that are alive at the end."""
    code = (
        "import holdall, numpy as np, threading\n"
        f"f = holdall.open({str(zt)!r})\n"
        "a = f['w'].numpy(); c = f['w'].__dlpack__(max_version=(1, 0)); d = np.from_dlpack(f['ids'])\n"
        "w = holdall.Writer('/dev/null/none') if False else None\n"
        "def go():\n"
        "    while True: f.load()\n"
        "threading.Thread(target=go, daemon=True).start()\n"
    )
    for _ in range(5):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
        assert run.returncode == 0, (run.returncode, run.stderr)
