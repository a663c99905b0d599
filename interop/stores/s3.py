"""The command against an S3 that is not ours: moto's server, on loopback.

    python s3.py target/debug/holdall
"""

import sys
import tempfile
from pathlib import Path

import boto3
from cases import Store
from moto.server import ThreadedMotoServer

command = sys.argv[1]
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://{host}:{port}"
secret = "a-secret-that-nobody-sees"
client = boto3.client(
    "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="an-id", aws_secret_access_key=secret
)
client.create_bucket(Bucket="models")
keys = {"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": "us-east-1"}
store = Store(command, endpoint, keys, [secret])
store.reads_and_writes("s3://models")
store.writes_models("s3://models")
listed = {found["Key"] for found in client.list_objects_v2(Bucket="models", Prefix="model/")["Contents"]}
index = "model/model.safetensors.index.json"
assert listed == {index, *(f"model/model-0000{n}-of-00002.safetensors" for n in (1, 2))}, listed
with tempfile.TemporaryDirectory() as folder:
    # What another client gets and puts is the same.
    for name in ("tiny", "large"):
        back = Path(folder, f"{name}.zt")
        client.download_file("models", f"out/{name}.zt", str(back))
        assert "same" in store.run("diff", str(back), f"s3://models/in/{name}.zt")
        client.upload_file(str(back), "models", f"theirs/{name}.zt")
        assert "same" in store.run("diff", str(back), f"s3://models/theirs/{name}.zt")
assert "stores/no-object" in store.run("inspect", "s3://models/in/none.zt", ends_with=2)
assert "stores/no-bucket" in store.run("inspect", "s3://nothing/none.zt", ends_with=2)
assert not client.list_multipart_uploads(Bucket="models").get("Uploads")
server.stop()
print("moto's S3: read, written, refused as it should be")
