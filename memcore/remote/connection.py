"""Connections to ``memtend serve``: one that blocks, and one for an event loop; requests are sent until one counts."""

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import aclosing, closing
from typing import Any, TypeVar

import httpx

from memcore.remote.requests import Address, Attempts, Call, EventReader, breaking_off, request_of, result_of

Result = TypeVar("Result")

#: Waits for some seconds.
Sleep = Callable[[float], None]
AsyncSleep = Callable[[float], Coroutine[Any, Any, None]]


class Connection:
    """Sends requests, and waits for their answers. Thread-safe; it opens with the first request.

    Args:
        address: the server.
        transport: carries requests instead of sockets.
        sleep, dice: the pauses between attempts.
    """

    def __init__(
        self,
        address: Address,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Sleep = time.sleep,
        dice: random.Random | None = None,
    ) -> None:
        self.address = address
        self._transport = transport
        self.sleep = sleep
        self._dice = dice or random.Random()  # noqa: S311  # it spreads pauses
        self._client: httpx.Client | None = None
        self._changing = threading.Lock()

    def send(self, call: Call[Result]) -> Result:
        """Return the result of a request; raises the error that its answer stands for, or MemoryConnectionError."""
        return result_of(call, self._answer(call))

    def events(self, call: Call[Any]) -> Iterator[tuple[str, Any]]:
        """Send a request, and return the events of its answer as they come; read them to their end.

        Raises as ``send``, and MemoryConnectionError where they break off.
        """
        response = self._answer(call, has_events=True)
        if not response.is_success:
            response.read()
            result_of(call, response)
        return self._events(response)

    def _events(self, response: httpx.Response) -> Iterator[tuple[str, Any]]:
        reader = EventReader()
        with breaking_off(self.address), closing(response):
            for line in response.iter_lines():
                if (event := reader.read(line)) is not None:
                    yield event

    def _answer(self, call: Call[Any], *, has_events: bool = False) -> httpx.Response:
        attempts = Attempts(self.address, dice=self._dice)
        client = self._opened()
        while True:
            try:
                response = client.send(request_of(client, call, self.address), stream=has_events)
            except httpx.HTTPError as error:
                pause: float | None = attempts.after_error(error)
            else:
                pause = attempts.after(response)
                if pause is None:
                    return response
                response.close()
            self.sleep(pause or 0.0)

    def close(self) -> None:
        """Close the connections; a request after it opens them again."""
        with self._changing:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _opened(self) -> httpx.Client:
        with self._changing:
            if self._client is None:
                self._client = httpx.Client(**self.address.options(), transport=self._transport)
            return self._client


class AsyncConnection:
    """The same for coroutines of one event loop."""

    def __init__(
        self,
        address: Address,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: AsyncSleep = asyncio.sleep,
        dice: random.Random | None = None,
    ) -> None:
        self.address = address
        self._transport = transport
        self.sleep = sleep
        self._dice = dice or random.Random()  # noqa: S311  # see Connection
        self._client: httpx.AsyncClient | None = None

    async def send(self, call: Call[Result]) -> Result:
        """Return the result of a request; raises as Connection.send."""
        return result_of(call, await self._answer(call))

    async def events(self, call: Call[Any]) -> AsyncIterator[tuple[str, Any]]:
        """Send a request, and return the events of its answer as they come; see Connection.events."""
        response = await self._answer(call, has_events=True)
        if not response.is_success:
            await response.aread()
            result_of(call, response)
        return self._events(response)

    async def _events(self, response: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
        reader = EventReader()
        with breaking_off(self.address):
            async with aclosing(response):
                async for line in response.aiter_lines():
                    if (event := reader.read(line)) is not None:
                        yield event

    async def _answer(self, call: Call[Any], *, has_events: bool = False) -> httpx.Response:
        attempts = Attempts(self.address, dice=self._dice)
        if self._client is None:
            self._client = httpx.AsyncClient(**self.address.options(), transport=self._transport)
        client = self._client
        while True:
            try:
                response = await client.send(request_of(client, call, self.address), stream=has_events)
            except httpx.HTTPError as error:
                pause: float | None = attempts.after_error(error)
            else:
                pause = attempts.after(response)
                if pause is None:
                    return response
                await response.aclose()
            await self.sleep(pause or 0.0)

    async def close(self) -> None:
        """Close the connections; a request after it opens them again."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


class BlockingConnection(AsyncConnection):
    """A Connection as coroutines: they block where they are called, and wait for no event loop."""

    def __init__(self, blocking: Connection) -> None:
        async def sleep(seconds: float) -> None:
            blocking.sleep(seconds)

        super().__init__(blocking.address, sleep=sleep)
        self._blocking = blocking

    async def send(self, call: Call[Result]) -> Result:
        """Return the result of a request; raises as Connection.send."""
        return self._blocking.send(call)

    async def close(self) -> None:
        """Close the connections; a request after it opens them again."""
        self._blocking.close()
