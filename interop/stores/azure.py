"""The command against Azurite, Azure's own emulator of its store, on loopback.

    python azure.py target/debug/holdall node_modules/.bin/azurite-blob
"""

import base64
import email.utils
import hashlib
import hmac
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from cases import Store, free_port

command, azurite = sys.argv[1:]
account = "devstoreaccount1"
# The key that the emulator has for everybody.
key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
port = free_port()
endpoint = f"http://127.0.0.1:{port}/{account}"


def make_container(name):
    date, version = email.utils.formatdate(usegmt=True), "2021-08-06"
    headers = f"x-ms-date:{date}\nx-ms-version:{version}\n"
    text = f"PUT{chr(10) * 12}{headers}/{account}/{account}/{name}\nrestype:container"
    mac = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    request = urllib.request.Request(f"{endpoint}/{name}?restype=container", method="PUT", data=b"")
    request.add_header("x-ms-date", date)
    request.add_header("x-ms-version", version)
    request.add_header("Content-Length", "0")
    # What urllib would add of its own is signed too.
    request.add_header("Content-Type", "")
    request.add_header("Authorization", f"SharedKey {account}:{base64.b64encode(mac).decode()}")
    urllib.request.urlopen(request, timeout=30).close()


with tempfile.TemporaryDirectory() as folder:
    how = ["--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry"]
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    server = subprocess.Popen([azurite, *how, *where], cwd=folder, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                make_container("models")
                break
            except (OSError, urllib.error.URLError):
                assert server.poll() is None and time.monotonic() < until, "azurite does not begin"
                time.sleep(0.2)
        named = {"AZURE_STORAGE_ACCOUNT_NAME": account, "AZURE_STORAGE_ACCOUNT_KEY": key}
        store = Store(command, endpoint, named, secrets=[key])
        store.reads_and_writes("az://models")
        assert "stores/no-object" in store.run("inspect", "az://models/none.zt", ends_with=2)
        assert "stores/no-bucket" in store.run("inspect", "az://nothing/none.zt", ends_with=2)
        other = base64.b64encode(b"another-key-that-nobody-sees-000").decode()
        wrong = Store(command, endpoint, named | {"AZURE_STORAGE_ACCOUNT_KEY": other}, secrets=[key, other])
        output = wrong.run("inspect", "az://models/in/tiny.zt", ends_with=None)
        assert "stores/credentials" in output or "stores/denied" in output, output
    finally:
        server.terminate()
        server.wait(30)
print("Azurite: read, written, refused as it should be")
