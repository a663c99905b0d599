"""Reports of what unpickling would do, without unpickling."""

from __future__ import annotations

import os
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from pathlib import Path

import holdall
import pytest


class Payload:
    """Something that runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("exit 1",)


@pytest.mark.parametrize("protocol", range(6))
def test_what_python_writes_is_told(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps([OrderedDict(a=1), {1.5, "ä", b"\0\xff", 1 << 80}, Payload()], protocol))
    found = holdall.scan(path)
    assert not found and found.verdict == "dangerous"
    imports = {f"{i.module}.{i.name}": i for i in found.pickles[0].imports}
    assert imports[f"{os.system.__module__}.system"].called
    path.write_bytes(pickletools.optimize(pickle.dumps({"a": [OrderedDict(b=2.5)]}, protocol)))
    found = holdall.scan(path)
    assert found and found.verdict == "safe", found
    assert found.pickles[0].broken is None


def test_zips_folders_and_what_cannot_be_told(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.pt", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("model/data.pkl", pickle.dumps(Payload()))
    (tmp_path / "broken.pkl").write_bytes(pickle.dumps(OrderedDict(a=1))[:-1])
    (tmp_path / "notes.txt").write_text("hello")
    seen = []
    found = holdall.scan(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert found.verdict == "dangerous" and found.files == 4
    verdicts = {os.path.basename(p.source): p.verdict for p in found.pickles}
    assert verdicts == {"data.pkl": "dangerous", "broken.pkl": "unknown"}
    none = holdall.scan(tmp_path / "notes.txt")
    assert none and none.verdict == "no pickles"
    broken = next(p for p in found.pickles if p.broken)
    assert broken.broken.code == "pickle/broken"
    (tmp_path / "x.pt").write_bytes(b"7z\xbc\xaf\x27\x1c")
    found = holdall.scan(tmp_path / "x.pt")
    assert not found and found.unread[0].code == "pickle/packed"
    with pytest.raises(holdall.FileIoError):
        holdall.scan(tmp_path / "nothing")
