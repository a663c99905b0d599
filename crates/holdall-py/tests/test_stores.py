"""Files in object stores, opened and written from Python, against a server of our own on loopback."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import holdall
import numpy as np
import pytest
from holdall import carton

SECRET = "hunter2hunter2"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None: ...

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        key = unquote(urlsplit(self.path).path)
        self.server.signed.append("Credential=me/" in (self.headers["authorization"] or ""))  # type: ignore[attr-defined]
        data = self.server.objects.get(key)  # type: ignore[attr-defined]
        if "list-type=2" in self.path:
            return self._answer(200, b"<ListBucketResult></ListBucketResult>")
        if data is None:
            return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        first, last = self.headers["range"].removeprefix("bytes=").split("-")
        start = int(first) if first else max(0, len(data) - int(last))
        end = min(len(data), int(last) + 1) if first and last else len(data)
        self._answer(206, data[start:end], content_range=f"bytes {start}-{end - 1}/{len(data)}", etag='"v"')

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        self.server.objects[unquote(self.path)] = data  # type: ignore[attr-defined]
        self._answer(200, etag='"v"')


@pytest.fixture
def store() -> Iterator[Any]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.objects, server.signed = {}, []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def options(store: Any) -> dict[str, Any]:
    options = {
        "key": "me",
        "secret": SECRET,
        "client_kwargs": {"endpoint_url": f"http://127.0.0.1:{store.server_port}", "region_name": "eu-1"},
        "anon": False,
        "use_listings_cache": True,
    }
    return {"storage_options": options, "allow": ["http", "private-hosts"]}


def test_a_file_goes_to_a_store_and_comes_from_there(store: Any) -> None:
    array = np.arange(5000, dtype=np.float32)
    with holdall.staged("s3://bucket/a b/w.zt", **options(store)) as path:
        holdall.save(path, {"w": array})
        assert not store.objects
    assert list(store.objects) == ["/bucket/a b/w.zt"]
    with holdall.open("s3://bucket/a b/w.zt", **options(store)) as file:
        assert file.name == "s3://bucket/a b/w.zt"
        np.testing.assert_array_equal(file["w"].numpy(), array)
        with pickle.loads(pickle.dumps(file)) as again:
            np.testing.assert_array_equal(again["w"].numpy(), array)
    assert all(store.signed)
    # A failed write leaves no object, and does not replace an existing one.
    with pytest.raises(ZeroDivisionError), holdall.staged("s3://bucket/x.zt", **options(store)) as path:
        holdall.save(path, {"w": array})
        raise ZeroDivisionError
    assert len(store.objects) == 1
    with pytest.raises(holdall.UsageError) as e, holdall.staged("s3://bucket/a b/w.zt", **options(store)):
        pass
    assert e.value.code == "write/exists"


def test_runs_of_a_blob_far_away_are_read_together(store: Any) -> None:
    texts = [str(at) * (1 + at % 90) for at in range(20_000)]
    with holdall.staged("s3://bucket/t.zt", **options(store)) as path:
        holdall.save(path, {"t": holdall.Runs(texts, "utf-8"), "b": holdall.Runs([t.encode() for t in texts], "bytes")})
    with holdall.open("s3://bucket/t.zt", **options(store)) as file:
        rng = np.random.default_rng(1)
        for ask in (lambda b: b.texts(), list):
            places = rng.choice(len(texts), 256)
            blob, before = file["t"].blob(), len(store.signed)
            assert ask(blob[places]) == [texts[at] for at in places]
            assert len(store.signed) - before <= 24
        places = rng.choice(len(texts), 256)
        blob, before = file["b"].blob(), len(store.signed)
        assert list(blob[places.tolist()]) == [texts[at].encode() for at in places]
        assert len(store.signed) - before <= 24
        # Of those one behind the other what follows is read ahead.
        for of, all in (("t", texts), ("b", [text.encode() for text in texts])):
            blob, before = file[of].blob(), len(store.signed)
            assert list(blob) == all
            assert len(store.signed) - before <= 12


def test_errors_have_codes_and_no_secrets(store: Any) -> None:
    for opened in (holdall.open, carton.open):
        with pytest.raises(holdall.NotFoundError) as e:
            opened("s3://bucket/none.zt", **options(store))
        assert e.value.code == "stores/no-object" and SECRET not in repr(e.value) + str(e.value)
        with pytest.raises(holdall.UsageError) as wrong:
            opened("s3://bucket/none.zt", storage_options={"sekret": SECRET})
        assert wrong.value.code == "stores/option" and SECRET not in repr(wrong.value) + str(wrong.value)
