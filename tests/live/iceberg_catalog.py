"""A catalog server that speaks Iceberg's REST protocol, and a proxy in front of it that loses answers.

The server is Iceberg's own adapter over a catalog in SQLite (`IcebergCatalog.java`), in a process that can be killed
and started again. Read next: test_iceberg_rest.py.
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hadoop_server import HadoopServer


class CatalogServer(HadoopServer):
    """The server; ``folder`` keeps its database, and is where its tables may lie."""

    jars, source = ("iceberg-1.10.0",), "IcebergCatalog.java"

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/v1/config", timeout=5):
                return True
        except OSError:
            return False


class Proxy:
    """Passes requests on to a catalog. ``lose`` is what happens to the next commits of snapshots, one word each.

    ``cut`` or a status is given in place of the answer to a commit that was made, ``unsent`` ends one that was not.
    ``lose_next_creation`` does what ``cut`` does to the commit that makes a table.
    """

    def __init__(self, server: CatalogServer, uri: str) -> None:
        self.server, self.uri = server, uri
        self.lose: list[str] = []
        self.lost: list[str] = []
        self.lose_next_creation = False


@contextmanager
def proxy(server: CatalogServer) -> Iterator[Proxy]:
    """A proxy that runs until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fault = found.lose.pop(0) if b"add-snapshot" in body and found.lose else ""
            if found.lose_next_creation and b"assert-create" in body:
                fault, found.lose_next_creation = "cut", False
            if fault:
                found.lost.append(fault)
            if fault == "unsent":
                self.close_connection = True
                return
            headers = {
                name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")
            }
            request = urllib.request.Request(
                server.uri + self.path, data=body or None, headers=headers, method=self.command
            )
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    status, kind, content = answer.status, answer.headers.get("Content-Type"), answer.read()
            except urllib.error.HTTPError as error:
                status, kind, content = error.code, error.headers.get("Content-Type"), error.read()
            if fault == "cut":
                self.close_connection = True
                return
            if fault:
                status, kind, content = int(fault), "text/plain", b"a gateway lost the answer"
            self.send_response(status)
            self.send_header("Content-Type", kind or "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_POST = do_DELETE = do_HEAD = handle_one

    front = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Proxy(server, f"http://127.0.0.1:{front.server_address[1]}")
    thread = threading.Thread(target=front.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        front.shutdown()
        front.server_close()
        thread.join(30)


__all__ = ["CatalogServer", "Proxy", "proxy"]
