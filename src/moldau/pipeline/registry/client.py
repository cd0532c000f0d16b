"""Asks a schema registry for schemas: by id, and by subject and version. Ids never change: their schemas are kept.

``UnknownSchema`` says that the registry has no such thing. Every other ``RegistryError`` says that it could not be
asked, and that the same question may be answered later.
"""

from __future__ import annotations

import base64
import contextlib
import difflib
import http.client
import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

SUBJECT_NOT_FOUND, VERSION_NOT_FOUND, SCHEMA_NOT_FOUND = 40401, 40402, 40403
_CONTENT = "application/vnd.schemaregistry.v1+json"
LARGEST_ANSWER_BYTES: Final = 64 << 20


class RegistryError(Exception):
    """A registry that cannot be asked, or that answers what no registry answers; the message has its URL."""


class UnknownSchema(RegistryError):
    """The registry answers that it has no such subject, version or id."""


class Reference(NamedTuple):
    """A schema that another one uses, by the name that it has there."""

    name: str
    subject: str
    version: int


class RegisteredSchema(NamedTuple):
    """A schema as the registry has it; ``kind`` is AVRO, PROTOBUF or JSON."""

    text: str
    kind: str
    references: tuple[Reference, ...]
    id: int


class _Answer(NamedTuple):
    status: int
    body: object


class Registry:
    """A registry at a URL, which may carry a user and a password.

    A request that cannot connect, that has no whole answer after ``timeout_seconds``, or that is answered by a 5xx or
    429, is sent ``attempts`` times, with pauses that begin at ``backoff_seconds`` and double.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = 10.0,
        attempts: int = 4,
        backoff_seconds: float = 0.2,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            parts = urlsplit(url)
        except ValueError:  # brackets that are no IPv6 address; the text has a password perhaps
            raise RegistryError("a registry's URL has a host that is none") from None
        try:
            port = parts.port
        except ValueError:
            raise RegistryError(
                f"the registry's URL has a port that is none: {parts.netloc.rpartition('@')[2]}"
            ) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RegistryError("a registry's URL begins with http:// or https:// and a host")
        try:
            parts.hostname.encode("idna")  # as a socket does it
        except UnicodeError as error:
            raise RegistryError(f"the registry's URL has a host that is none: {error}") from None
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, port
        self._path = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{self._path}"
        """The URL without user and password."""
        self._headers = {"Accept": f"{_CONTENT}, application/json", "Content-Type": _CONTENT}
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        self._timeout_seconds, self._attempts, self._backoff_seconds = timeout_seconds, attempts, backoff_seconds
        self._pause = pause
        self._by_id: dict[int, RegisteredSchema] = {}

    def __repr__(self) -> str:
        return f"Registry({self.url})"

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id; UnknownSchema when the registry has none."""
        known = self._by_id.get(schema_id)
        if known is None:
            answer = self._ask("GET", f"/schemas/ids/{schema_id}")
            if answer.status == 404:
                self._must_be_registry(answer)
                raise UnknownSchema(f"schema id {schema_id} is not in the registry at {self.url}")
            known = self._by_id[schema_id] = self._schema(self._fine(answer), schema_id)
        return known

    def by_subject(self, subject: str, version: int | None = None, *, deleted: bool = False) -> RegisteredSchema:
        """The schema of a subject's version, the latest without one; UnknownSchema when there is none. ``deleted``:
        also one that was deleted and not removed for good, as its id has it still."""
        place = f"/subjects/{quote(subject, safe='')}/versions/{'latest' if version is None else version}"
        answer = self._ask("GET", f"{place}?deleted=true" if deleted else place)
        if answer.status == 404:
            code = self._must_be_registry(answer)
            if code == VERSION_NOT_FOUND:
                raise UnknownSchema(f"subject {subject!r} has no version {version} in the registry at {self.url}")
            near: list[str] = []
            with contextlib.suppress(RegistryError):  # the list is another right than its entries, and a hint only
                near = difflib.get_close_matches(subject, self.subjects(), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UnknownSchema(f"subject {subject!r} is not in the registry at {self.url}{hint}")
        body = self._fine(answer)
        return self._schema(body, self._id(body))

    def subjects(self) -> list[str]:
        """The subjects that the registry has."""
        answer = self._ask("GET", "/subjects")
        if answer.status != 200 or not isinstance(answer.body, list):
            raise self._strange(answer)
        return [str(one) for one in answer.body]

    def register(self, subject: str, text: str, kind: str = "AVRO", references: tuple[Reference, ...] = ()) -> int:
        """Registers a schema under a subject, and returns its id: the one that it has, when it is there already."""
        body = {"schema": text, "schemaType": kind, "references": [one._asdict() for one in references]}
        return self._id(self._fine(self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)))

    def with_references(self, schema: RegisteredSchema) -> list[str]:
        """The texts of what a schema uses, each after those that it uses itself, and then its own text."""
        return [*dict.fromkeys(self.named_references(schema).values()), schema.text]

    def named_references(self, schema: RegisteredSchema) -> dict[str, str]:
        """The texts of what a schema uses, by the names that it has for them, each after those that it uses itself. A
        schema may have several names; of a name the first counts."""
        texts: dict[str, str] = {}
        seen: set[str] = set()
        known: dict[tuple[str, int], RegisteredSchema] = {}

        def add(one: RegisteredSchema) -> None:
            for reference in one.references:
                if reference.name not in seen:
                    seen.add(reference.name)
                    place = reference.subject, reference.version
                    if place not in known:
                        known[place] = self.by_subject(*place, deleted=True)
                    add(known[place])
                    texts[reference.name] = known[place].text

        add(schema)
        return texts

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> _Answer:
        pause_seconds, attempt = self._backoff_seconds, 1
        while True:
            try:
                answer = self._ask_once(method, path, body)
                if answer.status < 500 and answer.status != 429:
                    return answer
                problem = f"the registry at {self.url} answers {answer.status}"
            except (OSError, http.client.HTTPException) as error:
                problem = f"the registry at {self.url} cannot be reached: {str(error) or type(error).__name__}"
            if attempt == self._attempts:
                raise RegistryError(f"{problem} ({attempt} attempts)")
            self._pause(pause_seconds)
            pause_seconds, attempt = pause_seconds * 2, attempt + 1

    def _ask_once(self, method: str, path: str, body: Mapping[str, object] | None) -> _Answer:
        """The answer to one request, in a thread of its own: a socket's timeout begins anew with each byte that comes,
        and says nothing of names that are looked up or of several addresses that are tried."""
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout_seconds)
        ended: queue.SimpleQueue[tuple[int, bytes] | Exception] = queue.SimpleQueue()
        sockets: list[socket.socket] = []
        is_late = threading.Event()

        def ask() -> None:
            try:
                connection.connect()
                sockets.append(connection.sock)  # the connection forgets it where an answer says that it is closed
                if is_late.is_set():  # nobody waits, and nobody who looked for sockets has seen this one
                    return
                connection.request(method, self._path + path, None if body is None else json.dumps(body), self._headers)
                response = connection.getresponse()
                ended.put((response.status, response.read(LARGEST_ANSWER_BYTES + 1)))
            except Exception as error:  # whatever it is, it belongs to whoever asked
                ended.put(error)
            finally:
                connection.close()

        threading.Thread(target=ask, name="schema-registry", daemon=True).start()
        late = TimeoutError(f"no whole answer within {self._timeout_seconds:g} s")
        try:
            found = ended.get(timeout=self._timeout_seconds)
        except queue.Empty:
            raise late from None
        finally:
            is_late.set()
            for one in sockets:
                with contextlib.suppress(OSError):  # the thread that still reads then ends, and closes the connection
                    one.shutdown(socket.SHUT_RDWR)
        if isinstance(found, Exception):
            if isinstance(found, ValueError):  # of what cannot be written into a request: it never can
                raise RegistryError(f"the registry at {self.url} cannot be asked: {found}") from found
            raise late if isinstance(found, TimeoutError) else found  # the socket's own time is the same
        status, raw = found
        if len(raw) > LARGEST_ANSWER_BYTES:
            raise RegistryError(f"what answers at {self.url} is no schema registry: more than 64 MiB")
        try:
            return _Answer(status, json.loads(raw))
        except (ValueError, RecursionError):
            return _Answer(status, None)

    def _fine(self, answer: _Answer) -> Mapping[str, object]:
        if answer.status != 200 or not isinstance(answer.body, dict):
            raise self._strange(answer)
        return answer.body

    def _must_be_registry(self, answer: _Answer) -> int:
        """The error code of a 404; RegistryError when no registry answers like that."""
        code = answer.body.get("error_code") if isinstance(answer.body, dict) else None
        if code not in (SUBJECT_NOT_FOUND, VERSION_NOT_FOUND, SCHEMA_NOT_FOUND):
            raise self._strange(answer)
        return int(code)

    def _strange(self, answer: _Answer) -> RegistryError:
        if answer.status in (401, 403):
            return RegistryError(f"the registry at {self.url} refuses the user or password ({answer.status})")
        said = answer.body.get("message") if isinstance(answer.body, dict) else None
        if said is not None:
            return RegistryError(f"the registry at {self.url} answers {answer.status}: {said}")
        return RegistryError(f"what answers at {self.url} is no schema registry ({answer.status})")

    def _id(self, body: Mapping[str, object]) -> int:
        found = body.get("id")
        if not isinstance(found, int):
            raise RegistryError(f"what answers at {self.url} is no schema registry: an answer has no id")
        return found

    def _schema(self, body: Mapping[str, object], schema_id: int) -> RegisteredSchema:
        try:
            text, references = body["schema"], body.get("references") or []
            if not isinstance(text, str) or not isinstance(references, list):
                raise TypeError("schema")
            used = tuple(Reference(str(one["name"]), str(one["subject"]), int(one["version"])) for one in references)
        except (KeyError, TypeError, ValueError):
            raise RegistryError(f"what answers at {self.url} is no schema registry: an answer has no schema") from None
        return RegisteredSchema(text, str(body.get("schemaType") or "AVRO"), used, schema_id)
