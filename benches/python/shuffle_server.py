"""Serves a folder over HTTP on loopback, each request after a pause: byte ranges, and the listing that clients of S3 ask for.

    python3 shuffle_server.py FOLDER LATENCY_MS

The first line of its output is its port. `GET /-/counts` returns the number of requests and of bytes sent since the last time.
The first part of a path is the bucket where a client is one of S3: it is left out, so `/bucket/a/b` and `/-/files/a/b` are the
same file. Signatures are not looked at.
"""

import asyncio
import email.utils
import json
import os
import pathlib
import sys
import urllib.parse
from xml.sax.saxutils import escape

PIECE = 1 << 20


class Server:
    def __init__(self, folder, latency):
        self.folder, self.latency = folder, latency
        self.requests = self.sent = 0

    async def connection(self, reader, writer):
        try:
            while True:
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except (asyncio.IncompleteReadError, ConnectionError):
                    return
                lines = head.decode("latin-1").split("\r\n")
                method, target, _ = lines[0].split(" ", 2)
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
                if length := int(headers.get("content-length", 0)):
                    await reader.readexactly(length)
                await self.answer(writer, method, target, headers)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def answer(self, writer, method, target, headers):
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        path = urllib.parse.unquote(url.path)
        if path == "/-/counts":
            body = json.dumps({"requests": self.requests, "bytes": self.sent}).encode()
            self.requests = self.sent = 0
            return self.small(writer, 200, "application/json", body)
        self.requests += 1
        await asyncio.sleep(self.latency)
        path = path.removeprefix("/-/files").lstrip("/") if path.startswith("/-/") else path.lstrip("/").partition("/")[2]
        file = self.folder / path
        if method == "GET" and ("list-type" in query or not path):
            return self.small(writer, 200, "application/xml", self.listing(query))
        if method not in ("GET", "HEAD") or not file.is_file():
            return self.small(writer, 404, "application/xml", b"<Error><Code>NoSuchKey</Code></Error>", method)
        about = file.stat()
        first, end = 0, about.st_size
        if asked := headers.get("range"):
            low, _, high = asked.removeprefix("bytes=").partition("-")
            first = int(low) if low else max(0, end - int(high))
            end = min(end, int(high) + 1) if low and high else end
        status = "206 Partial Content" if asked else "200 OK"
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {end - first}", "Accept-Ranges: bytes"]
        lines += [f'ETag: "{about.st_mtime_ns:x}-{about.st_size:x}"', "Content-Type: application/octet-stream"]
        lines += [f"Last-Modified: {email.utils.formatdate(about.st_mtime, usegmt=True)}"]
        lines += [f"Content-Range: bytes {first}-{end - 1}/{about.st_size}"] if asked else []
        writer.write("\r\n".join([*lines, "", ""]).encode())
        if method == "HEAD":
            return
        self.sent += end - first
        with open(file, "rb") as file:
            if end - first <= PIECE:
                writer.write(os.pread(file.fileno(), end - first, first))
            else:
                await writer.drain()
                await asyncio.get_running_loop().sendfile(writer.transport, file, first, end - first)

    def small(self, writer, status, kind, body, method="GET"):
        lines = [f"HTTP/1.1 {status} -", f"Content-Length: {len(body)}", f"Content-Type: {kind}", "", ""]
        writer.write("\r\n".join(lines).encode() + (body if method != "HEAD" else b""))

    def listing(self, query):
        """The keys that start with a prefix, as ListObjectsV2 has them."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        after = query.get("start-after", "")
        keys = sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file())
        found, shared = [], []
        for key in keys:
            if not key.startswith(prefix) or key <= after:
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                shared.append(prefix + rest.split(delimiter)[0] + delimiter)
            else:
                found.append(key)
        xml = f"<Prefix>{escape(prefix)}</Prefix><KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>"
        for key in found:
            about = (self.folder / key).stat()
            when = email.utils.parsedate_to_datetime(email.utils.formatdate(about.st_mtime, usegmt=True))
            xml += f"<Contents><Key>{escape(key)}</Key><Size>{about.st_size}</Size>"
            xml += f"<LastModified>{when:%Y-%m-%dT%H:%M:%S.000Z}</LastModified><ETag>&quot;{about.st_mtime_ns:x}&quot;</ETag></Contents>"
        for key in dict.fromkeys(shared):
            xml += f"<CommonPrefixes><Prefix>{escape(key)}</Prefix></CommonPrefixes>"
        return f"<?xml version='1.0'?><ListBucketResult><Name>bucket</Name>{xml}</ListBucketResult>".encode()


async def main(folder, latency):
    server = Server(pathlib.Path(folder), float(latency) / 1e3)
    listening = await asyncio.start_server(server.connection, "127.0.0.1", 0, limit=1 << 20, backlog=512)
    print(listening.sockets[0].getsockname()[1], flush=True)
    async with listening:
        await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
