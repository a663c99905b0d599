"""The command against a WebDAV server that is not ours, on loopback.

    python webdav.py target/debug/holdall
"""

import shutil
import sys
import tempfile
import threading
from pathlib import Path

from cases import Store, free_port, large
from cheroot import wsgi
from wsgidav.wsgidav_app import WsgiDAVApp

command = sys.argv[1]
with tempfile.TemporaryDirectory() as folder:
    port = free_port()
    shared = Path(folder, "shared")
    shared.mkdir()
    shutil.copy("examples/tiny.zt", shared)
    path = large(shared)
    app = WsgiDAVApp(
        {
            "provider_mapping": {"/": str(shared)},
            "simple_dc": {"user_mapping": {"*": True}},
            "verbose": 0,
            "logging": {"enable": False},
        }
    )
    server = wsgi.Server(("127.0.0.1", port), app)
    thread = threading.Thread(target=server.safe_start, daemon=True)
    thread.start()
    try:
        store = Store(command, None, {})
        for name in ("tiny.zt", path.name):
            address = f"http://127.0.0.1:{port}/{name}"
            assert "tensors" in store.run("inspect", address)
            assert "same" in store.run("diff", address, str(shared / name))
            out = Path(folder, "out.zt")
            store.run("convert", address, str(out), "--force")
            assert "same" in store.run("diff", str(out), str(shared / name))
        store.run("inspect", f"http://127.0.0.1:{port}/none.zt", ends_with=None)
    finally:
        server.stop()
print("WebDAV: read as it should be")
