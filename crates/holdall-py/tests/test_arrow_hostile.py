"""Consumers of Arrow's C interface that do what they should not, by calls of its functions alone."""

import ctypes
import gc

import numpy as np
import pytest

import holdall

KIND = {
    "TypeDef:Struct": ["id", "name", "label"],
    "required": ["id", "name"],
    "properties": {
        "id": {"TypeDef:Uint32": True},
        "name": {"TypeDef:String": True},
        "label": {"TypeDef:Enum": True, "enum": ["cat", "dog"]},
    },
}
PTR = ctypes.c_void_p


class Schema(ctypes.Structure):
    _fields_ = [("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", PTR), ("flags", ctypes.c_int64)]
    _fields_ += [("n_children", ctypes.c_int64), ("children", ctypes.POINTER(PTR)), ("dictionary", PTR)]
    _fields_ += [("release", PTR), ("private_data", PTR)]


class Array(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")]
    _fields_ += [("buffers", ctypes.POINTER(PTR)), ("children", ctypes.POINTER(PTR)), ("dictionary", PTR)]
    _fields_ += [("release", PTR), ("private_data", PTR)]


class Stream(ctypes.Structure):
    _fields_ = [(name, PTR) for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")]


RELEASE = ctypes.CFUNCTYPE(None, PTR)
GET = ctypes.CFUNCTYPE(ctypes.c_int, PTR, PTR)
SAY = ctypes.CFUNCTYPE(ctypes.c_char_p, PTR)
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype, pointer_of.argtypes = PTR, [ctypes.py_object, ctypes.c_char_p]


def stream_of(capsule):
    return Stream.from_address(pointer_of(capsule, b"arrow_array_stream"))


def next_of(stream):
    array = Array()
    status = GET(stream.get_next)(ctypes.addressof(stream), ctypes.addressof(array))
    return status, array


def release(it):
    RELEASE(it.release)(ctypes.addressof(it))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.mt"
    rows = [{"id": n, "name": "x" * n, **({"label": "dog"} if n % 2 else {})} for n in range(10)]
    holdall.save(path, {"rows": holdall.Dataset(rows, KIND), "none": holdall.Dataset([], KIND), "w": np.ones((2, 3), np.float32)})
    return path


def test_a_stream_that_is_released_twice(path):
    with holdall.open(path) as f:
        capsule = f["rows"].records().__arrow_c_stream__()
        stream = stream_of(capsule)
        function = RELEASE(stream.release)
        function(ctypes.addressof(stream))
        assert not stream.release and not stream.private_data
        function(ctypes.addressof(stream))
        # Later calls return an error.
        assert next_of(stream)[0] != 0
        assert GET(stream.get_schema)(ctypes.addressof(stream), ctypes.addressof(Schema())) != 0
        assert SAY(stream.get_last_error)(ctypes.addressof(stream)) is None
        del stream, capsule
    gc.collect()


def test_arrays_outlive_stream_capsule_and_file(path):
    f = holdall.open(path, io="map")
    capsule = f["rows"].records().__arrow_c_stream__()
    stream = stream_of(capsule)
    schema = Schema()
    assert GET(stream.get_schema)(ctypes.addressof(stream), ctypes.addressof(schema)) == 0
    status, array = next_of(stream)
    assert (status, array.length, array.n_children) == (0, 10, 3)
    release(stream)
    del stream, capsule
    f.close()
    gc.collect()
    ids = Array.from_address(array.children[0])
    assert list((ctypes.c_uint32 * 10).from_address(ids.buffers[1])) == list(range(10))
    assert Schema.from_address(schema.children[1]).name == b"name"
    release(array)
    release(schema)
    assert not array.release and not schema.release


def test_a_child_that_is_moved_out_of_its_parent(path):
    with holdall.open(path) as f:
        capsule = f["rows"].records().__arrow_c_stream__()
        _, array = next_of(stream_of(capsule))
        inside = Array.from_address(array.children[1])
        moved = Array.from_buffer_copy(inside)
        inside.release = None
        release(array)
        ends = list((ctypes.c_int64 * 11).from_address(moved.buffers[1]))
        assert ends == [sum(range(n)) for n in range(11)]
        release(moved)


def test_a_consumer_that_stops_early(path):
    with holdall.open(path) as f:
        capsule = f["rows"].records().arrow("id", batch=2).__arrow_c_stream__()
        stream = stream_of(capsule)
        arrays = [next_of(stream)[1] for _ in range(2)]
        del stream, capsule  # The capsule releases what nobody took.
        gc.collect()
        for array in arrays:
            release(array)


def test_an_error_is_no_end(path):
    f = holdall.open(path)
    capsule = f["rows"].records().arrow("name", batch=4).__arrow_c_stream__()
    stream = stream_of(capsule)
    status, array = next_of(stream)
    assert (status, array.length) == (0, 4)
    release(array)
    f.close()
    for _ in range(3):
        assert next_of(stream)[0] != 0
        assert b"closed" in SAY(stream.get_last_error)(ctypes.addressof(stream))


def test_the_end_comes_again(path):
    with holdall.open(path) as f:
        capsule = f["none"].records().__arrow_c_stream__()
        for _ in range(2):
            status, array = next_of(stream_of(capsule))
            assert status == 0 and not array.release


def test_buffers_of_nothing_are_aligned(path):
    with holdall.open(path) as f:
        capsule = f["rows"].records()[:1].__arrow_c_stream__()
        _, array = next_of(stream_of(capsule))
        text = Array.from_address(array.children[1]).buffers[2]
        assert text and text % 64 == 0
        release(array)


def test_numbers_of_absent_enums_are_in_range(tmp_path):
    path = tmp_path / "a.mt"
    holdall.build(path, [{"id": 1, "name": "a"}, {"id": 2, "name": "b", "label": "dog"}], KIND)
    raw = bytearray(path.read_bytes())
    with holdall.open(path) as f:
        tensor = f["records"]
        r = tensor.records()
        at, offset, _ = r._find("label")
        data = tensor.components["data"].numpy().tobytes()
        start = bytes(raw).find(data)
    raw[start + offset] = 200
    (tmp_path / "b.mt").write_bytes(raw)
    with holdall.open(tmp_path / "b.mt", check="off") as f:
        capsule = f["records"].records().arrow("label").__arrow_c_stream__()
        _, array = next_of(stream_of(capsule))
        label = Array.from_address(array.children[0])
        assert label.null_count == 1
        assert list((ctypes.c_uint8 * 2).from_address(label.buffers[1])) == [0, 1]
        release(array)
