"""Files served by Python, read over QUIC and HTTP, and tensors as they arrive."""

import gc
import hashlib
import json
import pickle
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from conftest import ROOT

import holdall

ALLOW = ["private-hosts"]


@pytest.fixture
def models(tmp_path):
    folder = tmp_path / "models"
    (folder / "deep").mkdir(parents=True)
    layers = {f"layers.{at}.w": np.full((64, 64), at, np.float32) for at in range(12)}
    holdall.save(folder / "layers.zt", layers)
    (folder / "deep/tiny.zt").write_bytes((ROOT / "examples/tiny.zt").read_bytes())
    (folder / ".hidden").write_bytes(b"no")
    (tmp_path / "secret").write_bytes(b"no")
    return folder


def get(url, token=None):
    request = urllib.request.Request(url, headers={} if token is None else {"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


def comes(what):
    """Waits until something holds."""
    until = time.monotonic() + 30
    while not what():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_files_are_served_over_both(models):
    seen = []
    with holdall.serve(models, log=seen.append) as server:
        assert server.files == {
            "models/deep/tiny.zt": (models / "deep/tiny.zt").stat().st_size,
            "models/layers.zt": (models / "layers.zt").stat().st_size,
        }
        url = server.url("models/layers.zt")
        assert url == f"holdall://{server.address}/models/layers.zt#sha256={server.sha256}"
        with holdall.open(url, allow=ALLOW) as f:
            assert f["layers.3.w"][5:7].tolist() == [[3.0] * 64] * 2
            assert server.clients >= 1
            assert (f.load(["layers.1.w"])["layers.1.w"] == 1).all()
            again = pickle.loads(pickle.dumps(f))
            assert (again["layers.2.w"].numpy() == 2).all()
        with holdall.open(server.url("models/deep/tiny.zt"), allow=ALLOW) as f:
            assert f.verify()
        assert get(server.url("models/layers.zt", http=True)) == (models / "layers.zt").read_bytes()
        listed = json.loads(get(server.url("", http=True)))
        assert "models/layers.zt" in json.dumps(listed)
        for name in ("models/.hidden", "secret", "models/../secret", "none"):
            with pytest.raises(holdall.HoldallError) as info:
                holdall.open(server.url(name), allow=ALLOW)
            assert info.value.code == "net/no-file", name
        with pytest.raises(holdall.UsageError):
            server.url()
        with pytest.raises(TypeError):
            pickle.dumps(server)
    assert server.closed and "closed" in repr(server) and server.wait(0)
    server.close()
    with pytest.raises(holdall.UsageError):
        server.files and server.url("models/layers.zt")
    comes(lambda: {access.protocol for access in seen} == {"quic", "http"})
    comes(lambda: any(a.name == "models/layers.zt" and a.outcome == "whole" and a.sent > 0 for a in seen))
    comes(lambda: any(a.outcome == "net/no-file" for a in seen))


def test_who_may_ask_and_how(models, tmp_path):
    key = tmp_path / "server.key"
    file = models / "layers.zt"
    with holdall.serve(file, tokens=["sesame"], identity=key, clients=4, idle_timeout=5) as server:
        pin = server.sha256
        with pytest.raises(holdall.HoldallError) as info:
            holdall.open(server.url(), allow=ALLOW)
        assert info.value.code == "net/token"
        with holdall.open(server.url(token="sesame"), allow=ALLOW) as f:
            assert len(f) == 12 and "sesame" not in repr(f.warnings)
        with pytest.raises(urllib.error.HTTPError):
            get(server.url(http=True))
        assert get(server.url(http=True), "sesame") == file.read_bytes()
        with pytest.raises(holdall.HoldallError):    # Hosts of one's own machine must be allowed.
            holdall.open(server.url(token="sesame"))
    # The address stays the same, for the certificate was kept.
    listed = tmp_path / "tokens"
    listed.write_text("one\n\ntwo\n")
    with holdall.serve([file], tokens=listed, identity=key, only="quic") as server:
        assert server.sha256 == pin
        assert len(holdall.open(server.url(token="two"), allow=ALLOW)) == 12
        with pytest.raises(holdall.UsageError):
            server.url(http=True)
    with holdall.serve(file, plain_http=False) as server:
        with pytest.raises(holdall.UsageError, match="plain text"):
            server.url(http=True)
        with pytest.raises(urllib.error.HTTPError) as refused:
            get(server.url(https=True).replace("https://", "http://"))
        assert refused.value.code == 400
    with holdall.serve(file, only="http") as server:
        assert server.clients == 0
        # Whoever has the hash knows whom it talks to.
        host, port = server.address.split(":")
        any_certificate = ssl.create_default_context()
        any_certificate.check_hostname, any_certificate.verify_mode = False, ssl.CERT_NONE
        any_certificate.set_alpn_protocols(["h2", "http/1.1"])
        with any_certificate.wrap_socket(socket.create_connection((host, int(port)))) as stream:
            assert hashlib.sha256(stream.getpeercert(binary_form=True)).hexdigest() == server.sha256
            assert stream.selected_alpn_protocol() == "h2"
        any_certificate.set_alpn_protocols(["http/1.1"])
        with urllib.request.urlopen(server.url(https=True), timeout=10, context=any_certificate) as answer:
            assert answer.read() == file.read_bytes()
        with pytest.raises(TypeError):
            server.url(https=True, token="sesame")
        with pytest.raises(holdall.UsageError):
            server.url()


def test_what_cannot_be_served_is_refused(models, tmp_path):
    for paths, how, error in [
        ([], {}, holdall.UsageError),
        (tmp_path / "none", {}, holdall.HoldallError),
        ([models, models], {}, holdall.UsageError),
        (models, {"listen": "localhost"}, holdall.UsageError),
        (models, {"only": "ftp"}, holdall.UsageError),
        (models, {"tokens": ["with space"]}, holdall.UsageError),
        (models, {"tokens": "text"}, TypeError),
        (models, {"idle_timeout": -1}, holdall.UsageError),
        (models, {"key": "key"}, TypeError),
        (models, {"identity": models / "layers.zt"}, holdall.HoldallError),
    ]:
        with pytest.raises(error):
            holdall.serve(paths, **how)
    with holdall.serve(models) as server:
        with pytest.raises(holdall.HoldallError) as info:
            holdall.serve(models, listen=server.address)
        assert info.value.code == "net/listen"


def test_a_log_that_raises_harms_nobody(models, monkeypatch):
    unraisable = []
    monkeypatch.setattr("sys.unraisablehook", unraisable.append)

    def log(access):
        raise RuntimeError(access.name)

    with holdall.serve(models / "layers.zt", log=log) as server:
        assert get(server.url(http=True))
        comes(lambda: [type(t.exc_value) for t in unraisable] == [RuntimeError])


def test_a_server_that_is_forgotten_ends(models):
    server = holdall.serve(models)
    address = server.address
    del server
    gc.collect()
    host, port = address.rsplit(":", 1)
    with pytest.raises(OSError):
        socket.create_connection((host, int(port)), timeout=5).close()


def test_a_server_is_waited_for(models):
    with holdall.serve(models) as server:
        assert not server.wait(0.01)
        threading.Timer(0.05, server.close).start()
        assert server.wait(30)


def streamed(source, order=None, **how):
    with holdall.open(source, **how) as f, f.stream(order) as arriving:
        assert arriving.left == len(f if order is None else order)
        out = dict(arriving)
        assert arriving.left == 0 and next(arriving, None) is None
    return out


def test_tensors_arrive(models):
    path = models / "layers.zt"
    names = [f"layers.{at}.w" for at in (7, 3, 11)]
    with holdall.serve(path) as server:
        for source, how in [(path, {}), (path.read_bytes(), {}), (server.url(), {"allow": ALLOW})]:
            some = streamed(source, names, **how)
            assert sorted(some) == sorted(names) and (some["layers.7.w"] == 7).all()
            assert some["layers.7.w"].shape == (64, 64) and not some["layers.7.w"].flags.writeable
            assert len(streamed(source, **how)) == 12


def test_every_layout_arrives(models):
    path = ROOT / "examples/tiny.zt"
    arrived = streamed(path)
    with holdall.open(path) as f:
        assert set(arrived) == set(f)
        for name, t in f.items():
            if t.layout == "dense":
                expected, found = t.numpy(), arrived[name]
                assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes(), name
                continue
            assert set(arrived[name]) == set(t.components)
            for role, c in t.components.items():
                assert arrived[name][role].tobytes() == c.numpy().tobytes(), (name, role)


def test_a_stream_that_is_left_ends(models):
    with holdall.serve(models / "layers.zt") as server:
        f = holdall.open(server.url(), allow=ALLOW)
        arriving = f.stream()
        name, first = next(arriving)
        assert name.startswith("layers.") and arriving.left == 11 and "11 left" in repr(arriving)
        arriving.prefer("layers.11.w")
        with pytest.raises(holdall.NotFoundError):
            arriving.prefer("layers.12.w")
        arriving.close()
        assert next(arriving, None) is None and arriving.left == 0 and first.shape == (64, 64)
        with pytest.raises(holdall.NotFoundError):
            f.stream(["layers.12.w"])
        with pytest.raises(TypeError):
            f.stream("layers.1.w")
        threads = [threading.Thread(target=lambda: list(f.stream())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        lost = f.stream()
        next(lost)
        f.close()
        assert len(list(lost)) == 11    # What was begun goes on.
        with pytest.raises(holdall.UsageError):
            f.stream()


def test_what_is_damaged_ends_a_stream(tmp_path):
    path = tmp_path / "m.zt"
    holdall.save(path, {"a": np.zeros(1000, np.float32), "b": np.ones(1000, np.float32)}, digest="sha256")
    with holdall.open(path) as f:
        start = f["b"].components["data"].start
    data = bytearray(path.read_bytes())
    data[start] ^= 1
    path.write_bytes(data)
    with holdall.open(path, io="read") as f, f.stream(["b"]) as arriving:
        with pytest.raises(holdall.IntegrityError):
            list(arriving)
        assert list(arriving) == []


def test_numbers_are_told_and_bytes_of_a_second_are_bounded(tmp_path):
    path = tmp_path / "m.zt"
    holdall.save(path, {"a": np.zeros(1000, np.float32)})
    with holdall.serve(path, metrics="127.0.0.1:0", rate=1 << 30, rate_of_all=1 << 30) as server:
        with holdall.open(server.url(), allow=ALLOW) as f:
            assert len(f) == 1
        numbers = urllib.request.urlopen(server.metrics, timeout=10).read().decode()
        assert "holdall_" in numbers and "m.zt" not in numbers
    with holdall.serve(path, hash=True) as server:
        assert "&blake3=" in server.url()
        with holdall.open(server.url(), allow=ALLOW) as f:
            np.testing.assert_array_equal(f["a"].numpy(), np.zeros(1000, np.float32))
    with holdall.serve(path) as server:
        assert server.metrics is None and "blake3" not in server.url()
    for odd in [{"rate": 0}, {"rate_of_all": 0}, {"metrics": "here"}]:
        with pytest.raises(holdall.UsageError):
            holdall.serve(path, **odd)
