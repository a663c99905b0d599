"""Objects of other packages, and of one's own, as sources: read by position while the file is open."""

import gc
import gzip
import io
import threading
import zipfile

import numpy as np
import pytest

import holdall

WEIGHTS = {f"w{at}": np.arange(at, at + 100_000, dtype=np.float32) for at in range(6)}


@pytest.fixture
def data(tmp_path):
    holdall.save(tmp_path / "m.zt", WEIGHTS, digest="sha256")
    return (tmp_path / "m.zt").read_bytes()


def check(f):
    assert list(f) == list(WEIGHTS)
    assert f["w3"][10:12].tolist() == [13.0, 14.0] and f["w1"].numpy().tolist() == WEIGHTS["w1"].tolist()
    loaded = f.load()
    assert all((loaded[name] == array).all() for name, array in WEIGHTS.items())
    out = {"w2": np.empty(100_000, np.float32)}
    f.load_into(out)
    assert (out["w2"] == WEIGHTS["w2"]).all()
    assert f.verify() and dict(f.stream(["w5"]))["w5"][0] == 5
    with pytest.raises(TypeError):
        f.__reduce__()


class Counted(io.RawIOBase):
    """A file of another package: seekable, with a lock on nothing, that gives few bytes at a time."""

    name = "counted"

    def __init__(self, data):
        self._data, self._at, self.read_bytes = data, 0, 0

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self._at

    def seek(self, offset, whence=0):
        self._at = offset + (len(self._data) if whence == 2 else self._at if whence == 1 else 0)
        return self._at

    def read(self, count=-1):
        part = self._data[self._at : self._at + min(count, 50_000)]
        self._at += len(part)
        self.read_bytes += len(part)
        return part


def test_files_are_read_by_position(data, tmp_path):
    (tmp_path / "m.zt").write_bytes(data)
    with open(tmp_path / "m.zt", "rb") as file, holdall.open(file) as f:
        check(f)
        assert file.tell() == 0 and f.name == str(tmp_path / "m.zt")
    counted = Counted(data)
    with holdall.open(counted) as f:
        assert counted.read_bytes < len(data) // 2, "not all of it is read"
        check(f)
    with open(tmp_path / "inside", "wb+") as file:    # From where it stands, as it was opened: `with` does not matter.
        file.write(b"before" + data)
        file.seek(6)
        with holdall.open(file, name="inside") as f:
            check(f)
            assert f.name == "inside"
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m.zt", data)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive, archive.open("m.zt") as member, holdall.open(member) as f:
        check(f)
    check(holdall.open(io.BytesIO(data)))


class Ranges:
    """Something far away."""

    def __init__(self, data, how):
        self._data, self.size, self.asked = data, len(data), 0
        setattr(self, how, getattr(self, "_" + how))
        if how == "read":
            self.size = lambda: len(data)

    def _get_ranges(self, starts, ends):
        self.asked += 1
        return [memoryview(self._data)[a:b] for a, b in zip(starts, ends)]

    def _get_range(self, start, end):
        self.asked += 1
        assert start < end
        return bytearray(self._data[start:end])

    _read = _get_range


@pytest.mark.parametrize("how", ["get_ranges", "get_range", "read"])
def test_what_gives_ranges_is_a_source(data, how):
    source = Ranges(data, how)
    with holdall.open(source) as f:
        assert source.asked <= 3
        check(f)


class Store:
    """As stores of obstore are."""

    def __init__(self, **files):
        self._files = files

    def head(self, path):
        return {"size": len(self._files[path])}

    def get_ranges(self, path, *, starts, ends):
        return [self._files[path][a:b] for a, b in zip(starts, ends)]


def test_stores_have_files(data):
    with holdall.open("m", store=Store(m=data)) as f:
        check(f)
        assert f.name == "m"
    with pytest.raises(KeyError, match="none"):
        holdall.open("none", store=Store(m=data))


def test_what_goes_wrong_is_told_as_it_was(data):
    class Odd(Ranges):
        def _get_range(self, start, end):
            if self.asked > 5:
                if self.error is not None:
                    raise self.error
                return self.given
            return super()._get_range(start, end)

    source = Odd(data, "get_range")
    source.error = RuntimeError("the line is down")
    with holdall.open(source) as f:
        source.asked = 9
        for read in (lambda: f["w1"].numpy(), f.load, lambda: list(f.stream())):
            with pytest.raises(RuntimeError, match="the line is down"):
                read()
        source.error = None
        for source.given in ([], b"short", 7, "text", None):
            with pytest.raises(Exception) as info:
                f["w1"].numpy()
            assert isinstance(info.value, (OSError, TypeError, BufferError)), (source.given, info.value)
    with pytest.raises(OSError):    # The file is shorter than it says.
        source = Ranges(data, "get_range")
        source.size += 1000
        holdall.open(source)["w5"].numpy()
    with pytest.raises(TypeError):
        holdall.open(io.StringIO("text"))
    with pytest.raises(TypeError):
        holdall.open(object())


def test_a_file_that_is_closed_says_so(data, tmp_path):
    (tmp_path / "m.zt").write_bytes(data)
    for opened in (open(tmp_path / "m.zt", "rb"), open(tmp_path / "m.zt", "rb+")):
        f = holdall.open(opened)
        opened.close()
        with pytest.raises(ValueError, match="closed"):
            f["w1"].numpy()


def test_many_threads_and_none_that_waits_for_itself(data):
    with holdall.open(Counted(data)) as f:
        wrong = []

        def work():
            for name, array in WEIGHTS.items():
                if not (f[name].numpy() == array).all():
                    wrong.append(name)
            f.load(threads=4)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert not wrong
        # Everything that reads lets go of the interpreter, also what makes a file of it.
        out = io.BytesIO()
        holdall.convert(f, out, format="safetensors")
        assert holdall.save_bytes({name: f[name] for name in f}, format="zt")
        assert not holdall.diff(f, holdall.open(out.getvalue()))
        arriving = f.stream()
        next(arriving)
        del arriving
        gc.collect()
        assert holdall.stats(f)["w1"].count == 100_000 and holdall.inspect(f)["tensors"]


def test_records_of_a_source(tmp_path):
    points = np.zeros(300, [("id", "<u4"), ("at", "<f4", 2)])
    points["id"] = np.arange(300)
    holdall.save(tmp_path / "p.mt", {"points": points})
    with holdall.open(Counted((tmp_path / "p.mt").read_bytes())) as f:
        r = f["points"].records()
        assert (r.numpy() == points).all() and len(r.where("id>=290")) == 10 and r[7]["id"] == 7
        assert [x["id"] for x in r.sample(5, seed=1)] == sorted(r.sample(5, seed=1).column("id"))


def test_fsspec(data, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    (tmp_path / "m.zt").write_bytes(data)
    (tmp_path / "m.zt.gz").write_bytes(gzip.compress(data))
    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/m.zt", data)
    for source in (
        fsspec.open(tmp_path / "m.zt", "rb"),
        fsspec.open("memory://bucket/m.zt", "rb"),
        memory.open("/bucket/m.zt"),
        fsspec.filesystem("dir", path="/bucket", fs=memory).open("m.zt"),
    ):
        with holdall.open(source) as f:
            assert f.load()["w3"][0] == 3
    with fsspec.open(tmp_path / "m.zt", "rb") as file, holdall.open(file) as f:
        assert f["w1"][0] == 1 and f.io in ("map", "read") and f.name == str(tmp_path / "m.zt")
    with fsspec.open(tmp_path / "m.zt.gz", "rb", compression="gzip") as file, holdall.open(file) as f:
        check(f)
    with holdall.open(fsspec.open("memory://bucket/m.zt", "rb")) as f:
        check(f)
        assert f.name == "memory:///bucket/m.zt"
    with pytest.raises(TypeError):
        holdall.open(fsspec.open("memory://bucket/m.zt", "r"))


def test_obstore(data):
    obstore = pytest.importorskip("obstore")
    from obstore.store import MemoryStore

    store = MemoryStore()
    obstore.put(store, "a/m.zt", data)
    with holdall.open("a/m.zt", store=store) as f:
        check(f)
    with holdall.open(obstore.open_reader(store, "a/m.zt")) as f:
        check(f)
    with pytest.raises(FileNotFoundError):
        holdall.open("none", store=store)
