"""Classes of errors and what they carry."""

import copy
import errno
import http.server
import inspect
import json
import os
import pickle
import re
import socket
import subprocess
import sys
import threading
import traceback
import warnings
import zipfile

import numpy as np
import pytest

import holdall
from conftest import ROOT
from holdall import errors


#: What each class is, besides a HoldallError.
ALSO = {
    "AccessDeniedError": (holdall.FileIoError, PermissionError),
    "ConnectionFailedError": (holdall.FileIoError, ConnectionError),
    "FileIoError": (OSError,),
    "HoldallError": (),
    "IntegrityError": (),
    "LimitError": (),
    "MalformedError": (ValueError,),
    "MissingFileError": (holdall.NotFoundError, holdall.FileIoError, FileNotFoundError),
    "MissingMemberError": (holdall.MissingNameError, holdall.MissingFileError, KeyError, FileNotFoundError),
    "MissingNameError": (holdall.NotFoundError, KeyError),
    "MissingPackageError": (holdall.UnsupportedError, ImportError),
    "NotFoundError": (),
    "TargetExistsError": (holdall.UsageError, FileExistsError),
    "UnsupportedError": (NotImplementedError,),
    "UsageError": (ValueError,),
}


def test_classes():
    defined = {name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__}
    assert defined == set(ALSO) | {"FormatWarning"} == set(errors.__all__)
    for name, bases in ALSO.items():
        of = getattr(holdall, name)
        assert of is getattr(errors, name) and issubclass(of, (holdall.HoldallError, *bases))
        assert all(issubclass(of, base) for base in bases) and name.endswith("Error"), name
    # A missing name is not an operating system error, and a missing file is not a KeyError.
    assert not issubclass(holdall.MissingNameError, OSError) and not issubclass(holdall.MissingFileError, KeyError)


@pytest.mark.parametrize("name", ALSO)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_errors_are_copied_whole(name, again):
    of = getattr(holdall, name)
    e = of("what is wrong", code="a/b", kind="io", source="a.zt", tensor="t", component="data", range=(1, 2), hint="do this",
           remedies=[{"do": "it"}], errno=5)  # fmt: skip
    e.add_note("a note")
    e = again(e)
    assert type(e) is of and str(e) == "what is wrong\nhint: do this" and repr(e) == f"{name}('what is wrong')"
    assert (e.code, e.kind, e.source, e.tensor, e.component) == ("a/b", "io", "a.zt", "t", "data")
    assert (e.range, e.hint, e.remedies, e.errno, e.__notes__) == ((1, 2), "do this", [{"do": "it"}], 5, ["a note"])
    if isinstance(e, OSError):
        assert (e.filename, e.strerror) == ("a.zt", "what is wrong")
    # As torch's DataLoader makes one again.
    assert str(of("a text")) == "a text" and "a text" in "".join(traceback.format_exception_only(of("a text")))


def test_warnings_are_warnings():
    w = holdall.FormatWarning("a/b", "odd", tensor="t")
    with pytest.warns(holdall.FormatWarning, match="^odd$") as seen:
        warnings.warn(w)
    assert seen[0].message is w and issubclass(holdall.FormatWarning, UserWarning)
    again = pickle.loads(pickle.dumps(w))
    assert again == w == copy.copy(w) and hash(again) == hash(w) and again != holdall.FormatWarning("a/c", "odd")
    assert (again.code, again.message, again.tensor, again.component, again.count) == ("a/b", "odd", "t", None, 1)
    assert repr(w) == "FormatWarning(code='a/b', message='odd', tensor='t', component=None, count=1)"


def test_every_code_that_has_a_class_is_a_rule():
    rules = (ROOT / "docs/rules.md").read_text(encoding="utf-8")
    for code, of in errors._BY_CODE.items():
        if not code.startswith("python/"):
            kind = re.search(rf"^\| `{code}` \| (\w+) ", rules, re.M)[1]
            assert issubclass(of, errors._BY_KIND[kind]) or kind == "not_found" and issubclass(of, holdall.NotFoundError), code


def test_what_python_would_raise(zt, tmp_path):
    with holdall.open(zt) as f:
        for call in (lambda: f["idz"], lambda: f.load(["idz"])):
            with pytest.raises(KeyError):
                call()
        with pytest.raises(NotImplementedError):
            holdall.open(b"<html><title>403</title>")
    with pytest.raises(ValueError, match="closed"):
        f["w"].numpy()
    (tmp_path / "empty").mkdir()
    for call in (lambda: holdall.open(tmp_path / "none"), lambda: holdall.load(tmp_path / "none"), lambda: holdall.open(tmp_path / "empty")):
        with pytest.raises(FileNotFoundError) as e:
            call()
        assert e.value.errno == errno.ENOENT and e.value.filename == e.value.source
    before = zt.read_bytes()
    with pytest.raises(FileExistsError) as e:
        holdall.save(zt, {"a": np.ones(1)}, overwrite=False)
    assert isinstance(e.value, ValueError) and e.value.errno == errno.EEXIST and zt.read_bytes() == before
    (tmp_path / "b.zt").write_bytes(before[:-9])
    with pytest.raises(ValueError) as e:
        holdall.open(tmp_path / "b.zt")
    assert type(e.value) is holdall.MalformedError
    with pytest.raises(OSError) as e:
        holdall.save(tmp_path / "none" / "a.zt", {"a": np.ones(1)})
    assert type(e.value) is holdall.MissingFileError


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(zt):
    zt.chmod(0)
    with pytest.raises(PermissionError) as e:
        holdall.open(zt)
    assert type(e.value) is holdall.AccessDeniedError and e.value.errno == errno.EACCES


def test_denied_by_number():
    made = errors._make("no", code="io/failed", kind="io", errno=errno.EPERM)
    assert type(made) is holdall.AccessDeniedError and made.errno == errno.EPERM
    assert type(errors._make("no", code="io/failed", kind="io", errno=errno.EIO)) is holdall.FileIoError
    assert type(errors._make("no", code="x/y", kind="unheard-of")) is holdall.HoldallError


def test_members_of_archives_and_packages(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as z:
        z.writestr("a.safetensors", holdall.save_bytes({"a": np.ones(1)}, format="safetensors"))
    with pytest.raises(FileNotFoundError) as e:
        holdall.open(f"{tmp_path / 'a.zip'}!/none.safetensors")
    assert type(e.value) is holdall.MissingMemberError and isinstance(e.value, KeyError) and e.value.code == "archive/no-file"


@pytest.mark.parametrize("status, of, builtin", [
    (404, holdall.MissingFileError, FileNotFoundError), (403, holdall.AccessDeniedError, PermissionError),
    (418, holdall.FileIoError, OSError),
])  # fmt: skip
def test_what_servers_refuse(status, of, builtin):
    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(status)

        do_HEAD = do_GET

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(builtin) as e:
            holdall.open(f"http://127.0.0.1:{server.server_address[1]}/a.zt", allow=["http", "private-hosts"])
        server.shutdown()
    assert type(e.value) is of and e.value.code == "http/status" and str(status) in str(e.value)


def test_a_host_that_does_not_answer():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with pytest.raises(ConnectionError) as e:
        holdall.open(f"http://127.0.0.1:{port}/a.zt", allow=["http", "private-hosts"])
    assert type(e.value) is holdall.ConnectionFailedError


def test_a_package_of_python_that_is_missing(zt):
    code = """
import sys, holdall
sys.modules["torch"] = None
with holdall.open(sys.argv[1]) as f:
    try:
        f["w"].torch()
    except ImportError as e:
        assert type(e) is holdall.MissingPackageError and "pip install" in e.hint, e
    else:
        raise SystemExit("torch is there")
"""
    subprocess.run([sys.executable, "-c", code, str(zt)], check=True, timeout=120)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError) as e:
        holdall.open(tmp_path / "none.zt")
    assert type(e.value) is holdall.MissingFileError
    assert e.value.kind == "io" and e.value.code == "io/failed" and e.value.errno == 2
    assert "none.zt" in e.value.source


def test_a_folder_and_an_empty_file(tmp_path):
    with pytest.raises(holdall.MissingFileError) as none:
        holdall.open(tmp_path)
    assert none.value.code == "shards/no-model"
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(holdall.MalformedError) as e:
        holdall.open(tmp_path / "empty")
    assert e.value.code == "format/empty"


def test_a_missing_tensor_reads_well(zt):
    with holdall.open(zt) as f, pytest.raises(KeyError) as e:
        f["idz"]
    text = str(e.value)
    assert "there is no tensor" in text and "did you mean `ids`" in text and not text.startswith("'")
    assert e.value.tensor == "idz" and e.value.code == "file/no-tensor" and e.value.kind == "not_found"


def test_changed_bytes(zt):
    data = bytearray(zt.read_bytes())
    with holdall.open(zt) as f:
        start, end = f["w"].location["data"]
    data[start + 5] ^= 1
    zt.write_bytes(data)
    with pytest.raises(holdall.IntegrityError) as e:
        holdall.load(zt)
    assert e.value.tensor == "w" and e.value.component == "data" and e.value.range == (start, end)
    assert e.value.code == "file/digest" and e.value.hint
    with holdall.open(zt, check="off") as f:
        f.load()
    report = holdall.verify(zt)
    assert not report and report.verdict == "bad" and report.finding_count == 1
    assert isinstance(report.findings[0], holdall.IntegrityError)
    with holdall.open(zt) as f:
        assert not f["w"].verify() and f["ids"].verify()


def suggested(hint):
    """The limits that a hint suggests, as a caller would copy them."""
    (text,) = re.findall(r"limits=(\{.*?\})", hint)
    return eval(text, {"N": 7})


def refusal(path, limits, target):
    """What refuses the file under these limits: opening it, or reading its tensors and making them dense."""
    with pytest.raises(holdall.LimitError) as e, holdall.open(path, limits=limits) as f:
        holdall.convert(f, target, dense=True, drop_attributes=True)
    return e.value


LIMITS = json.loads((ROOT / "corpus/limits.json").read_text())


@pytest.mark.parametrize("case", LIMITS, ids=lambda case: f"{case['limit']}-{case['code']}")
def test_limits_are_kept(case, tmp_path):
    limits = {case["limit"]: case["value"], **case.get("also", {})}
    e = refusal(ROOT / "corpus/accept" / case["file"], limits, tmp_path / "a.zt")
    assert e.code == case["code"]
    named = [remedy["limit"] for remedy in e.remedies if remedy["do"] == "raise_limit"]
    assert named == [case.get("remedy", case["limit"])]
    assert list(suggested(e.hint)) == named


@pytest.mark.parametrize("case", LIMITS, ids=lambda case: f"{case['limit']}-{case['code']}")
def test_operations_on_paths_take_limits(case, tmp_path):
    path, limits = ROOT / "corpus/accept" / case["file"], {case["limit"]: case["value"], **case.get("also", {})}
    with pytest.raises(holdall.LimitError) as e:
        holdall.convert(path, tmp_path / "a.zt", dense=True, drop_attributes=True, limits=limits)
    assert e.value.code == case["code"]


def test_limits_of_operations(zt):
    for call in (holdall.load, holdall.verify, lambda *a, **k: holdall.load_into(*a, {}, **k)):
        with pytest.raises(holdall.UsageError) as e:
            call(zt, limits={"none": 1})
        assert e.value.code == "limits/unknown"
        with holdall.open(zt) as f, pytest.raises(holdall.UsageError) as e:
            call(f, limits={"tensors": 1})
        assert e.value.code == "python/option"
    with pytest.raises(holdall.LimitError):
        holdall.load(zt, limits={"tensors": 1})
    assert not holdall.verify(zt, limits={"tensors": 1}) and holdall.verify(zt, limits={"tensors": 100})


def test_every_limit_is_tested_and_typed():
    from holdall import _holdall

    names = {name for name, *_ in _holdall.limit_remedies()}
    # Files are fetched in test_pack.py.
    assert {case["limit"] for case in LIMITS} | {"fetched_len"} == names
    assert set(holdall.Limits.__annotations__) == names | {"skip_unknown"}


def test_remedies_that_name_a_limit_are_accepted(zt):
    from holdall import _holdall

    for name, *hints in _holdall.limit_remedies():
        for hint, value in zip(hints, [7, 20]):
            limits = suggested(hint)
            assert limits == {name: value}
            try:
                holdall.open(zt, limits=limits).close()
            except holdall.LimitError:
                pass    # The limit exists, and is too low for this file.


def test_limits_that_do_not_exist_are_refused(zt):
    for name in ["nope", "decodedLen", "decoded-len", "salvage"]:
        with pytest.raises(holdall.UsageError) as e:
            holdall.open(zt, limits={name: 1})
        assert e.value.code == "limits/unknown"
        assert all(known in str(e.value) for known in holdall.Limits.__annotations__ if known != "skip_unknown")
    with pytest.raises(holdall.UsageError, match="did you mean `decoded_len`"):
        holdall.open(zt, limits={"decodedLen": 1})
    with pytest.raises(holdall.UsageError, match="`depth` must be at most 512, not 513"):
        holdall.open(zt, limits={"depth": 513})
    with pytest.raises(TypeError):
        holdall.open(zt, limits={"tensors": "many"})
    with pytest.raises(OverflowError):
        holdall.open(zt, limits={"tensors": -1})


def test_words_that_mean_nothing(zt, tmp_path):
    one = {"a": np.ones(1)}
    calls = [
        lambda: holdall.open(zt, io="fast"), lambda: holdall.open(zt, check="some"),
        lambda: holdall.save(tmp_path / "b.zt", one, encoding="lzma"),
        lambda: holdall.save(tmp_path / "b.zt", one, digest="md5"),
        lambda: holdall.save(tmp_path / "b.zt", one, format="npy"),
        lambda: holdall.save(tmp_path / "b.zt", one, tied="no"),
        lambda: holdall.save(tmp_path / "b.zt", one, align=3),
        lambda: holdall.save(tmp_path / "b.unknown", one),
        lambda: holdall.convert(zt, tmp_path / "b.zt", sharing="x"),
        lambda: holdall.convert(zt, tmp_path / "b.zt", rename=["nothing"]),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(holdall.UsageError):
            call()
    assert not list(tmp_path.glob("b.*"))


def test_every_remedy_is_spelled_in_python():
    from holdall import _holdall

    elsewhere = {"copy_elements", "read_pairs", "give_schema"}
    for name, hint, in_rust in _holdall.remedies():
        assert (hint is None) == (name in elsewhere), name
        if hint is not None:
            # These are the same for everybody.
            assert (hint == in_rust) == (name in {"did_you_mean", "read_array"}), name
            assert "--" not in hint and "with_" not in hint and "::" not in hint, hint


def test_remedies_are_values(zt):
    with holdall.open(zt) as f, pytest.raises(holdall.NotFoundError) as e:
        f["idz"]
    assert e.value.remedies == [{"do": "did_you_mean", "name": "ids"}]
    again = pickle.loads(pickle.dumps(e.value))
    assert again.remedies == e.value.remedies and again.hint == e.value.hint


def test_hints_speak_python(tmp_path):
    scipy = pytest.importorskip("scipy.sparse")
    holdall.save(tmp_path / "a.zt", {"s": scipy.eye_array(3, format="csr"), "c": np.ones(2, np.complex128)})
    with pytest.raises(holdall.UnsupportedError) as e:
        holdall.convert(tmp_path / "a.zt", tmp_path / "a.safetensors")
    assert "dense=True" in e.value.hint and "--" not in e.value.hint
    with pytest.raises(holdall.UsageError) as e:
        holdall.save(tmp_path / "a.none", {"c": np.ones(2)})
    assert 'format="ztensor"' in e.value.hint and "--" not in e.value.hint


def test_files_of_other_kinds_are_named(tmp_path):
    for name, content, message, way in [
        ("a.safetensors", b"<html><title>403</title>", "an HTML page titled “403”", "the server sent an error or a web page"),
        ("b.gguf", b"version https://git-lfs.github.com/spec/v1\nsize 5\n", "a git-lfs pointer for a file of 5 bytes", "git lfs"),
        ("c.csv", b"id,name\n1,a\n", "a table of text", "holdall.build creates a dataset"),
        ("d.pkl", b"\x80\x04\x95\x10\0\0\0\0\0\0\0}.", "a pickle", "loading a pickle"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(holdall.UnsupportedError) as e:
            holdall.open(tmp_path / name)
        assert e.value.code == "format/unknown" and message in str(e.value)
        assert way in str(e.value.hint), e.value.hint
