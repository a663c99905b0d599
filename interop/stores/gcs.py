"""The command against an emulator of Google's store that is not ours, on loopback.

    python gcs.py target/debug/holdall
"""

import json
import sys
import urllib.request

from cases import Store, free_port
from gcp_storage_emulator.server import create_server

command = sys.argv[1]
port = free_port()
server = create_server("127.0.0.1", port, in_memory=True)
server.start()
endpoint = f"http://127.0.0.1:{port}"
body = json.dumps({"name": "models"}).encode()
request = urllib.request.Request(f"{endpoint}/storage/v1/b?project=p", data=body, method="POST")
request.add_header("Content-Type", "application/json")
urllib.request.urlopen(request, timeout=30).close()
try:
    store = Store(command, endpoint, {"GOOGLE_OAUTH_ACCESS_TOKEN": "a-token-that-nobody-sees"}, ["a-token-that-nobody-sees"])
    # It has no uploads in parts.
    store.reads_and_writes("gs://models", is_large=False)
    assert "stores/no-object" in store.run("inspect", "gs://models/none.zt", ends_with=2)
finally:
    server.stop()
print("an emulator of Google's store: read, written, refused as it should be")
