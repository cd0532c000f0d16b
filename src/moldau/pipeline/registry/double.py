"""A schema registry for tests, in this process and on loopback: registers and answers, and keeps nothing on disk.

    with RegistryDouble() as registry:
        registry.register("orders-value", '{"type": "record", ...}')
        ... registry.url ...

It does not look into schemas: none is refused, and compatibility is not judged (such a request is answered by 501).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from moldau.pipeline.registry.client import SCHEMA_NOT_FOUND, SUBJECT_NOT_FOUND, VERSION_NOT_FOUND, Reference


class _Kept(NamedTuple):
    text: str
    kind: str
    references: tuple[Reference, ...]

    def body(self) -> dict[str, object]:
        """The schema as an answer has it: a type that is Avro is not named."""
        found: dict[str, object] = {"schema": self.text}
        if self.kind != "AVRO":
            found["schemaType"] = self.kind
        if self.references:
            found["references"] = [one._asdict() for one in self.references]
        return found


class _Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class RegistryDouble:
    """A registry at ``url`` while the ``with`` lasts.

    ``asked`` has the paths of requests in their order. While ``failing`` is true, every request is answered by a 500.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._schemas: list[_Kept] = []  # a schema's id is its place, counted from 1
        self._subjects: dict[str, list[int]] = {}
        self._deleted: set[str] = set()
        self.asked: list[str] = []
        self.failing = False
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                double._answer(self, None)

            def do_POST(self) -> None:
                double._answer(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is logged: ``asked`` has it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> RegistryDouble:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Closes the port; what connects afterwards is refused."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def register(self, subject: str, text: str, kind: str = "AVRO", references: Sequence[Reference] = ()) -> int:
        """Registers a schema, and returns its id; the same schema has one id under all subjects."""
        kept = _Kept(text, kind, tuple(references))
        with self._lock:
            if kept not in self._schemas:
                self._schemas.append(kept)
            self._deleted.discard(subject)
            schema_id = self._schemas.index(kept) + 1
            versions = self._subjects.setdefault(subject, [])
            if schema_id not in versions:
                versions.append(schema_id)
            return schema_id

    def delete(self, subject: str) -> None:
        """Deletes a subject as registries do unless they are told to for good: ids have its schemas still, and so has
        who asks for what is deleted."""
        with self._lock:
            self._deleted.add(subject)

    def _answer(self, request: BaseHTTPRequestHandler, sent: bytes | None) -> None:
        path, query = urlsplit(request.path)[2:4]
        self.asked.append(path)
        try:
            if self.failing:
                raise _Refused(500, "the registry was told to fail")
            status, body = (
                200,
                self._found(
                    [unquote(one) for one in path.strip("/").split("/")], sent, deleted=query == "deleted=true"
                ),
            )
        except _Refused as refused:
            status = refused.code if refused.code < 1000 else refused.code // 100
            body = {"error_code": refused.code, "message": str(refused)}
        raw = json.dumps(body).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        request.send_header("Content-Length", str(len(raw)))
        request.end_headers()
        request.wfile.write(raw)

    def _found(self, path: list[str], sent: bytes | None, *, deleted: bool) -> object:
        match path:
            case ["subjects"]:
                with self._lock:
                    return sorted(self._subjects.keys() - self._deleted)
            case ["schemas", "ids", number]:
                with self._lock:
                    if not number.isdigit() or not 1 <= int(number) <= len(self._schemas):
                        raise _Refused(SCHEMA_NOT_FOUND, f"Schema {number} not found")
                    return self._schemas[int(number) - 1].body()
            case ["subjects", subject, "versions"] if sent is not None:
                return {"id": self._register_sent(subject, sent)}
            case ["subjects", subject, "versions"]:
                return list(range(1, len(self._versions(subject, deleted=deleted)) + 1))
            case ["subjects", subject, "versions", version]:
                return self._version(subject, version, deleted=deleted)
        raise _Refused(501, f"this registry for tests does not answer /{'/'.join(path)}")

    def _register_sent(self, subject: str, sent: bytes) -> int:
        try:
            body: Mapping[str, object] = json.loads(sent)
            given = body.get("references") or []
            assert isinstance(given, list)
            references = [Reference(str(one["name"]), str(one["subject"]), int(one["version"])) for one in given]
            return self.register(subject, str(body["schema"]), str(body.get("schemaType") or "AVRO"), references)
        except (ValueError, KeyError, TypeError, AttributeError, AssertionError):
            raise _Refused(422, "a body has 'schema', and may have 'schemaType' and 'references'") from None

    def _versions(self, subject: str, *, deleted: bool) -> list[int]:
        with self._lock:
            if subject not in self._subjects or (subject in self._deleted and not deleted):
                raise _Refused(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")
            return list(self._subjects[subject])

    def _version(self, subject: str, version: str, *, deleted: bool) -> dict[str, object]:
        ids = self._versions(subject, deleted=deleted)
        at = len(ids) if version == "latest" else int(version) if version.isdigit() else 0
        if not 1 <= at <= len(ids):
            raise _Refused(VERSION_NOT_FOUND, f"Version {version} not found.")
        with self._lock:
            return {"subject": subject, "version": at, "id": ids[at - 1], **self._schemas[ids[at - 1] - 1].body()}
