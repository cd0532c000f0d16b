"""A scripted broker on a real loopback socket: answers each request by the script it was given.

Not a broker: it keeps no state beyond what the script keeps. Read next: test_connection.py, test_client.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.model import Code
from moldau.ports import World
from moldau.runtime.world import new_loop, real_world
from moldau.wire.apis import APIS
from moldau.wire.frames import RequestHeader, read_request, read_request_header, response_frame
from moldau.wire.messages.k18_api_versions import ApiVersionsResponse
from moldau.wire.schema import Message
from tests.packages import loops

PATIENCE_S = 120
HANG_UP = object()
SILENCE = object()

Script = Callable[[Message, RequestHeader], Any]
"""Gets a request; gives the response, raw bytes, SILENCE (no answer), HANG_UP, or an awaitable of these."""


def api_versions(ranges: dict[int, tuple[int, int]], code: int = 0) -> ApiVersionsResponse:
    entry = ApiVersionsResponse.ApiVersion
    keys = [entry(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()]
    return ApiVersionsResponse(error_code=code, api_keys=keys)


ALL_VERSIONS = {key: (api.low, api.high) for key, api in APIS.items()}


class FakeBroker:
    """``heard`` holds every request but handshakes, with its header, in the order of arrival."""

    def __init__(self, script: Script, ranges: dict[int, tuple[int, int]] | None = None) -> None:
        self.script = script
        self.ranges = ALL_VERSIONS if ranges is None else ranges
        self.features: dict[str, int] = {}
        self.zk_migration_ready = False
        self.heard: list[tuple[RequestHeader, Message]] = []
        self.handshakes: list[int] = []
        self.connections = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> FakeBroker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.hang_up()

    def hang_up(self) -> None:
        """End every connection at once."""
        for writer in list(self._writers):
            writer.transport.abort()

    @property
    def asked(self) -> list[str]:
        return [type(message).__name__.removesuffix("Request") for _, message in self.heard]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = memoryview(await reader.readexactly(size))
                answer = await self._answer(frame)
                if answer is HANG_UP:
                    return
                if answer is not None:
                    writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, frame: memoryview) -> Any:
        header = read_request_header(frame)
        served = self.ranges.get(header.api_key)
        if header.api_key == 18:
            self.handshakes.append(header.api_version)
            known = served is not None and header.api_version <= served[1]
            version = header.api_version if known else 0
            code = Code.NONE if known else Code.UNSUPPORTED_VERSION
            answer: Any = api_versions(self.ranges if known else {18: served or (0, 0)}, code)
            answer.zk_migration_ready = self.zk_migration_ready
            answer.finalized_features = [
                ApiVersionsResponse.FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, level in self.features.items()
            ]
        else:
            assert served is not None, f"{header} is not served"
            assert served[0] <= header.api_version <= served[1], f"{header} outside {served}"
            message, version = read_request(frame, header), header.api_version
            self.heard.append((header, message))
            answer = self.script(message, header)
            if asyncio.iscoroutine(answer) or asyncio.isfuture(answer):
                answer = await answer
        if answer is HANG_UP or isinstance(answer, bytes):
            return answer
        if answer is SILENCE or answer is None:
            return None
        return b"".join(response_frame(answer, version, header.correlation_id))


def run(scene: Callable[[World], Coroutine[Any, Any, None]], *, uvloop: bool = True) -> None:
    """Run a scene in the real world; a background failure fails it."""
    loop = new_loop() if uvloop else asyncio.new_event_loop()
    failures: list[tuple[str, BaseException]] = []

    async def play() -> None:
        world = real_world(loop, lambda name, error: failures.append((name, error)))
        await asyncio.wait_for(scene(world), PATIENCE_S)

    try:
        loop.run_until_complete(play())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loops.close(loop)
    assert not failures, failures


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; the time limit is ``run``'s."""
    while not condition():  # noqa: ASYNC110  # conditions here are about sockets, which set no event
        await asyncio.sleep(0.002)
