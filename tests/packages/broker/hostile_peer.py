"""A peer that means no good: it listens, speaks enough of the protocol to be believed, and then does something wrong.

Each request meets the next of its ``Behavior``s, by api key, in turn; ``met`` tells which have been. ``proper`` answers
what a scene needs to go on. Never what it says about other nodes: that is believed, as Kafka's nodes believe theirs.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from itertools import cycle
from typing import Any

from moldau.wire.apis import APIS
from moldau.wire.frames import read_request, read_request_header, response_frame
from moldau.wire.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.schema import Message

SIZE = struct.Struct(">i")
UNKNOWN_CODE = 12_345
Proper = Callable[[Message], Message | None]


class Behavior(Enum):
    """What becomes of a request."""

    HANG_UP = auto()
    RESET = auto()
    GARBAGE = auto()
    HALF_A_FRAME = auto()
    TOO_LARGE = auto()
    NEGATIVE = auto()
    WRONG_ID = auto()
    CUT_SHORT = auto()
    UNASKED = auto()
    EMPTY = auto()
    CODE_OF_THE_FUTURE = auto()
    ANYTHING = auto()
    PROPER = auto()


class HostilePeer:
    """Listens at ``port``. ``proper(request)`` gives a good answer, None for any behavior's."""

    def __init__(self, proper: Proper = lambda request: None, unserved: frozenset[int] = frozenset()) -> None:
        self.proper = proper
        self.unserved = unserved
        """Api keys that its handshake does not name."""
        self.met: Counter[tuple[int, Behavior]] = Counter()
        self.tame: set[int] = set()
        """Api keys that get proper answers from now on."""
        self.ids: list[bytes] = [bytes(16)]
        """Topic ids that it may speak of."""
        self.connections = 0
        self.port = 0
        self._behaviors: dict[int, Any] = {}
        self._rng = random.Random(1)
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def listen(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self.port

    def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for line in self._lines:
            line.transport.abort()

    def has_met(self, *keys: int, times: int = 1) -> bool:
        """Whether every behavior has met each of these requests so often."""
        return all(self.met[key, behavior] >= times for key in keys for behavior in Behavior)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines.add(writer)  # before its task begins: a test may end, and cancel it, before that
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                frame = memoryview(await reader.readexactly(*SIZE.unpack(await reader.readexactly(4))))
                header = read_request_header(frame)
                if not self._answer(writer, header, read_request(frame, header)):
                    break
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._lines.discard(writer)
            writer.close()

    def _answer(self, writer: asyncio.StreamWriter, header: Any, request: Message) -> bool:
        """Answer somehow; False: the connection is over."""
        if isinstance(request, ApiVersionsRequest):
            writer.writelines(response_frame(self._handshake(), header.api_version, header.correlation_id))
            return True
        tame = header.api_key in self.tame
        behavior = Behavior.PROPER if tame else next(self._behaviors.setdefault(header.api_key, cycle(Behavior)))
        self.met[header.api_key, behavior] += 1
        good = self.proper(request) or APIS[header.api_key].response()
        whole = b"".join(bytes(part) for part in response_frame(good, header.api_version, header.correlation_id))
        match behavior:
            case Behavior.RESET:
                writer.transport.abort()
            case Behavior.GARBAGE:
                writer.write(self._rng.randbytes(200))
            case Behavior.HALF_A_FRAME:
                writer.write(whole[: len(whole) // 2])
            case Behavior.TOO_LARGE:
                writer.write(SIZE.pack(0x7FFFFFFF) + whole[4:])
            case Behavior.NEGATIVE:
                writer.write(SIZE.pack(-5) + whole[4:])
            case Behavior.WRONG_ID:
                writer.write(whole[:4] + SIZE.pack(header.correlation_id ^ 0x55) + whole[8:])
            case Behavior.CUT_SHORT:
                cut = whole[4:-1]
                writer.write(SIZE.pack(len(cut)) + cut)
            case Behavior.UNASKED:
                writer.write(whole + whole)
            case Behavior.EMPTY | Behavior.CODE_OF_THE_FUTURE | Behavior.ANYTHING:
                wrong = self._wrong(behavior, header.api_key, header.api_version)
                writer.writelines(response_frame(wrong, header.api_version, header.correlation_id))
                return True
            case Behavior.PROPER:
                writer.write(whole)
                return True
        return False

    def _handshake(self) -> ApiVersionsResponse:
        kind = ApiVersionsResponse.ApiVersion
        served = [
            kind(api_key=key, min_version=api.request.versions[0], max_version=api.request.versions[1])
            for key, api in APIS.items()
            if key not in self.unserved
        ]
        return ApiVersionsResponse(api_keys=served)

    def _wrong(self, behavior: Behavior, key: int, version: int) -> Any:
        response = APIS[key].response
        if behavior is Behavior.EMPTY:
            return response()
        if behavior is Behavior.CODE_OF_THE_FUTURE:
            return _with_code(response, version)
        return self._anything(response, version)

    def _anything(self, kind: Any, version: int) -> Any:
        """A message of this kind with numbers from everywhere, and one of everything it has many of."""
        return kind(**{f.name: self._drawn(f.type, version) for f in kind.fields if f.present(version)})

    def _drawn(self, type: Any, version: int) -> Any:
        if isinstance(type, list):
            return [self._drawn(type[0], version) for _ in range(self._rng.choice((0, 1, 1, 1, 2)))]
        if not isinstance(type, str):
            return self._anything(type, version)
        if type.startswith("int"):
            most = (1 << (int(type[3:]) - 1)) - 1
            return self._rng.choice((0, 0, 0, 1, -1, -2, 99, most, -most - 1))
        drawn: Any = {
            "uint16": self._rng.choice((0, 1, 0xFFFF)),
            "uint32": 0xFFFFFFFF,
            "float64": float("nan"),
            "bool": self._rng.random() < 0.5,
            "uuid": self._rng.choice(self.ids),
            "string": self._rng.choice(("", "x" * 70, "a\0b", "a..b", "\u2028")),
            "bytes": self._rng.randbytes(30),
            "records": self._rng.randbytes(120),
        }
        return drawn[type]


def _with_code(kind: Any, version: int) -> Any:
    """The default message, its error code and those of its items from a release yet to come."""
    given: dict[str, Any] = {}
    for field in kind.fields:
        if not field.present(version):
            continue
        if field.name == "error_code":
            given[field.name] = UNKNOWN_CODE
        elif isinstance(field.type, list) and not isinstance(field.type[0], str):
            given[field.name] = [_with_code(field.type[0], version)]
    return kind(**given)
