"""The command against an S3 that is not ours: moto's server, on loopback.

    python s3.py target/debug/holdall
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

command = sys.argv[1]
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://{host}:{port}"
keys = {"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret-that-nobody-sees", "AWS_REGION": "us-east-1"}
os.environ.update(keys)
client = boto3.client("s3", endpoint_url=endpoint)
client.create_bucket(Bucket="models")


def run(*args, ends_with=0):
    how = ["--store", f"endpoint_url={endpoint}", "--allow", "http", "--allow", "private-hosts"]
    done = subprocess.run([command, *args, *how], capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    assert done.returncode == ends_with, f"{args}: {done.returncode}\n{said}"
    assert keys["AWS_SECRET_ACCESS_KEY"] not in said
    return said


with tempfile.TemporaryDirectory() as folder:
    # Larger than one part of an upload, so that it is made of several; no two of its rows are alike.
    import struct

    raw = b"".join(struct.pack("<Q", n * 0x9E3779B97F4A7C15 % 2**64) for n in range(3 << 20))
    header = b'{"w":{"dtype":"U64","shape":[%d],"data_offsets":[0,%d]}}' % (len(raw) // 8, len(raw))
    header += b" " * (-len(header) % 8)
    large = Path(folder, "large.safetensors")
    large.write_bytes(struct.pack("<Q", len(header)) + header + raw)
    for path in ("examples/tiny.zt", str(large)):
        name = Path(path).name
        client.upload_file(path, "models", f"in/{name}")
        assert "tensors" in run("inspect", f"s3://models/in/{name}")
        # From the store, to the store, and what is there is not replaced.
        run("convert", f"s3://models/in/{name}", f"s3://models/out/{name}.zt")
        assert "write/exists" in run("convert", path, f"s3://models/out/{name}.zt", ends_with=2)
        run("convert", path, f"s3://models/out/{name}.zt", "--force")
        assert "same" in run("diff", f"s3://models/out/{name}.zt", path)
        back = Path(folder, "back.zt")
        client.download_file("models", f"out/{name}.zt", str(back))
        assert "same" in run("diff", str(back), path)
    assert "stores/no-object" in run("inspect", "s3://models/in/none.zt", ends_with=2)
    assert "stores/no-bucket" in run("inspect", "s3://nothing/none.zt", ends_with=2)
    assert not client.list_multipart_uploads(Bucket="models").get("Uploads")
server.stop()
print("moto's S3: read, written, refused as it should be")
