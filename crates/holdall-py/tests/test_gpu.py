"""Models in buffers of wgpu-py: with a stand-in that records all writes, and, where wgpu-py and an adapter are there,
by reading every byte back."""

import os

import numpy as np
import pytest

import holdall
import holdall.gpu


class Buffer:
    def __init__(self, size, queue):
        self.size, self.bytes, self.is_there, self._queue = size, bytearray(size), True, queue

    def map_sync(self, mode):
        assert mode == "READ" and self.is_there
        self._queue.waiting = 0

    def unmap(self):
        pass

    def destroy(self):
        self.is_there = False


class Queue:
    def __init__(self):
        self.waiting = self.most = 0

    def write_buffer(self, buffer, offset, data):
        data = memoryview(data).cast("B")
        assert offset % 4 == 0 and data.nbytes % 4 == 0 and offset + data.nbytes <= buffer.size
        buffer.bytes[offset : offset + data.nbytes] = data
        self.waiting += data.nbytes
        self.most = max(self.most, self.waiting)

    def submit(self, commands):
        assert commands == []


class Device:
    """As much of a ``GPUDevice`` as is called."""

    def __init__(self, largest=1 << 27, buffers=1000):
        self.limits = {"max-buffer-size": 1 << 30, "max-storage-buffer-binding-size": largest}
        self.queue, self.buffers, self.left = Queue(), [], buffers

    def create_buffer(self, *, size, usage):
        assert size % 4 == 0 and usage & 8
        if usage & 1:
            return Buffer(size, self.queue)
        if self.left == 0:
            raise MemoryError("no room on the device")
        self.left -= 1
        self.buffers.append(Buffer(size, self.queue))
        return self.buffers[-1]


def read(component, of=lambda page: bytes(page.buffer.bytes[page.offset : page.offset + page.nbytes])):
    return b"".join(of(page) for page in component.pages)


def arrays():
    lengths = [0, 1, 3, 4, 255, 257, 4099, (1 << 20) + 1, (9 << 20) + 3]
    out = {f"enc.layer.{n}.u8": (np.arange(length) * 7 % 251).astype("u1") for n, length in enumerate(lengths)}
    out["w"] = np.arange(12, dtype="f4").reshape(3, 4)
    return out


@pytest.mark.parametrize("name, how", [("m.safetensors", {}), ("m.zt", {}), ("p.zt", {"encoding": "zstd", "digest": "sha256"})])
def test_every_byte_is_where_the_model_says(tmp_path, name, how):
    path, data = tmp_path / name, arrays()
    holdall.save(path, data, **how)
    # Pages of 1 MiB, and of whole tensors.
    for device in (Device(), Device(largest=(1 << 20) + 100)):
        model = holdall.gpu.load_model(device, path)
        assert list(model) == list(holdall.open(path)) and len(model.buffers) == len(device.buffers)
        for key, array in data.items():
            tensor = model[key]
            assert (tensor.shape, read(tensor.components["data"])) == (array.shape, array.tobytes()), key
            assert all(page.offset % 256 == 0 for page in tensor.components["data"].pages)
        assert model.nbytes == sum(buffer.size for buffer in device.buffers)
        assert device.queue.most <= 64 << 20 and device.queue.waiting == 0
    with pytest.raises(holdall.UnsupportedError) as info:
        model["enc.layer.8.u8"].binding
    assert info.value.code == "gpu/pages"
    assert model["w"].binding["size"] == 48 and list(model.view("enc.layer.0")) == ["u8"]
    with pytest.raises(holdall.NotFoundError):
        model["x"]
    holdall.save(tmp_path / "n.safetensors", {name: data["w"] for name in ("layers[0].w", "layers[1].w", "layers2")})
    nested = holdall.gpu.load_model(Device(), tmp_path / "n.safetensors")
    assert list(nested.view("layers")) == ["[0].w", "[1].w"] and list(nested.view("layers[1]")) == ["w"]
    assert len(holdall.gpu.load_model(Device(), path, include=["enc.*"], exclude=["*.8.*"])) == 8
    model.destroy()
    assert not any(buffer.is_there for buffer in device.buffers)


def test_parts_lie_by_their_roles(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    holdall.save(tmp_path / "s.zt", {"s": sparse.csr_array(np.eye(4, dtype="f4"))})
    model = holdall.gpu.load_model(Device(), tmp_path / "s.zt")
    assert read(model["s"].components["values"]) == np.ones(4, "f4").tobytes()
    with pytest.raises(holdall.UsageError) as info:
        model["s"].binding
    assert info.value.code == "gpu/component"


def test_what_goes_wrong_leaves_nothing_on_the_device(tmp_path):
    path = tmp_path / "m.zt"
    holdall.save(path, arrays())
    device = Device(buffers=1)
    with pytest.raises(MemoryError) as info:
        holdall.gpu.load_model(device, path)
    assert any("`enc.layer.8.u8`" in note for note in getattr(info.value, "__notes__", ["`enc.layer.8.u8`"]))
    assert not any(buffer.is_there for buffer in device.buffers)
    damaged = bytearray(path.read_bytes())
    start = holdall.open(path)["enc.layer.7.u8"].location["data"][0]
    damaged[start + 100] ^= 1
    path.write_bytes(damaged)
    device = Device()
    with holdall.open(path, check="all") as file, pytest.raises(holdall.IntegrityError):
        holdall.gpu.load_model(device, file)
    assert not any(buffer.is_there for buffer in device.buffers)
    with pytest.raises(holdall.UsageError):
        holdall.gpu.load_model(device, path, usage=0x80)


def test_a_real_device_has_every_byte(tmp_path, monkeypatch):
    wgpu = pytest.importorskip("wgpu")
    if "XDG_RUNTIME_DIR" not in os.environ:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    try:
        device = wgpu.gpu.request_adapter_sync().request_device_sync()
    except Exception as e:
        pytest.skip(f"there is no adapter: {e}")
    path, data = tmp_path / "m.zt", arrays()
    holdall.save(path, data)
    model = holdall.gpu.load_model(device, path)
    for key, array in data.items():
        pages = model[key].components["data"].pages
        found = b"".join(
            bytes(device.queue.read_buffer(page.buffer, page.offset, page.binding["size"]))[: page.nbytes] for page in pages
        )
        assert found == array.tobytes(), key
    shader = """
        @group(0) @binding(0) var<storage, read> w: array<f32>;
        @group(0) @binding(1) var<storage, read_write> out: array<f32>;
        @compute @workgroup_size(1) fn main() { for (var i = 0u; i < 12u; i++) { out[0] += w[i]; } }
    """
    out = device.create_buffer(size=4, usage=wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC)
    module = device.create_shader_module(code=shader)
    pipeline = device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
    entries = [{"binding": 0, "resource": model["w"].binding}, {"binding": 1, "resource": {"buffer": out, "offset": 0, "size": 4}}]
    group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
    encoder = device.create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, group)
    compute.dispatch_workgroups(1)
    compute.end()
    device.queue.submit([encoder.finish()])
    assert np.frombuffer(device.queue.read_buffer(out), "f4")[0] == data["w"].sum()
    model.destroy()
