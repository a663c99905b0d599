"""What the command must do with any store, whoever wrote the server."""

import os
import socket
import struct
import subprocess
import tempfile
from pathlib import Path


def free_port():
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return some.getsockname()[1]


class Store:
    """A store at `endpoint`, for a command with these variables and none of the user's own."""

    def __init__(self, command, endpoint, variables, secrets=()):
        self.command, self.endpoint, self.secrets = command, endpoint, secrets
        own = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_", "HOLDALL_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        self.environ = kept | {"HOME": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true"} | variables

    def run(self, *args, ends_with=0):
        """What a run says. It must end with this status, or with none of success where that is nothing."""
        how = ["--allow", "http", "--allow", "private-hosts"]
        if self.endpoint:
            how += ["--store", f"endpoint_url={self.endpoint}"]
        done = subprocess.run(
            [self.command, *args, *how], capture_output=True, text=True, timeout=120, env=self.environ
        )
        output = done.stdout + done.stderr
        is_so = done.returncode != 0 if ends_with is None else done.returncode == ends_with
        assert is_so, f"{args}: {done.returncode}\n{output}"
        assert not any(secret in output for secret in self.secrets), output
        return output

    def reads_and_writes(self, root, is_large=True):
        """Files of the machine go to below `root`, from there to elsewhere there; a large one too, in parts."""
        with tempfile.TemporaryDirectory() as folder:
            paths = ["examples/tiny.zt", *([str(large(folder))] if is_large else [])]
            for path in paths:
                name = Path(path).stem
                there, copy = f"{root}/in/{name}.zt", f"{root}/out/{name}.zt"
                self.run("convert", path, there)
                assert "tensors" in self.run("inspect", there)
                # From the store, to the store, and what is there is not replaced.
                self.run("convert", there, copy)
                assert "write/exists" in self.run("convert", path, copy, ends_with=2)
                self.run("convert", path, copy, "--force")
                assert "same" in self.run("diff", copy, path)
            assert "tiny" in self.run("inspect", f"{root}/in/tiny.zt", "--json")

    def writes_models(self, root):
        """A model of several files, which is replaced only when that is asked for."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.safetensors")
            for count in (3, 2):
                model(path, count)
                if count == 2:
                    how = ["convert", str(path), f"{root}/model", "--max-shard-size", "1000"]
                    assert "shards/target" in self.run(*how, ends_with=2)
                    self.run(*how, "--force")
                else:
                    self.run("convert", str(path), f"{root}/model/", "--max-shard-size", "1000")
                assert "same" in self.run("diff", f"{root}/model/", str(path))


def model(path, count):
    """Tensors of a thousand bytes."""
    part = '"t%d":{"dtype":"U8","shape":[1000],"data_offsets":[%d,%d]}'
    header = "{" + ",".join(part % (n, n * 1000, n * 1000 + 1000) for n in range(count)) + "}"
    header += " " * (-len(header) % 8)
    raw = b"".join(bytes([n + count]) * 1000 for n in range(count))
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + raw)


def large(folder):
    """A file that is larger than one part of an upload; no two of its rows are alike."""
    raw = b"".join(struct.pack("<Q", n * 0x9E3779B97F4A7C15 % 2**64) for n in range(3 << 20))
    header = b'{"w":{"dtype":"U64","shape":[%d],"data_offsets":[0,%d]}}' % (len(raw) // 8, len(raw))
    header += b" " * (-len(header) % 8)
    path = Path(folder, "large.safetensors")
    path.write_bytes(struct.pack("<Q", len(header)) + header + raw)
    return path
