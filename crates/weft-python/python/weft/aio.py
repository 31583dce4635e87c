"""Weft for asyncio.

>>> import asyncio
>>> from weft import aio
>>> async def main():
...     volume = await aio.connect()
...     file = await volume.attach("/async", write=True, create=True)
...     view = await file.view()
...     await view.write(b"hello")
...     buffer = bytearray(5)
...     await view.read_into(buffer)
...     await file.close()
...     return bytes(buffer)
>>> asyncio.run(main())
b'hello'

Every method of :class:`weft.Volume`, :class:`weft.File` and :class:`weft.View` is a coroutine here, and
so is ``size()`` of files and views, which asks the servers; other attributes are as they are there.
Requests of views are operations in the background, which the event loop waits for by a descriptor;
what goes to the metadata service runs in a thread. A task that is cancelled cancels its operation,
and its memory is not touched any more.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import weft


async def wait(operation: weft.Operation) -> int:
    """Waits for an operation, and returns the bytes moved."""
    loop = asyncio.get_running_loop()
    descriptor = operation.fileno()
    ended = loop.create_future()

    def readable() -> None:
        if not ended.done():
            ended.set_result(None)

    loop.add_reader(descriptor, readable)
    try:
        await ended
    except asyncio.CancelledError:
        loop.remove_reader(descriptor)
        await asyncio.shield(asyncio.to_thread(operation.cancel))
        raise
    loop.remove_reader(descriptor)
    # It has ended: this does not wait.
    return operation.wait()


class _Async:
    """An object whose methods run in threads."""

    def __init__(self, blocking: Any) -> None:
        self.blocking = blocking

    # Properties that ask the servers: methods here.
    _asks = frozenset()

    def __getattr__(self, name: str) -> Any:
        if name in self._asks:

            async def ask() -> Any:
                return await asyncio.to_thread(getattr, self.blocking, name)

            return ask
        found = getattr(self.blocking, name)
        if not callable(found) or isinstance(found, type):
            return _wrapped(found)

        @functools.wraps(found)
        async def call(*arguments: Any, **keywords: Any) -> Any:
            given = [_blocking(argument) for argument in arguments]
            named = {key: _blocking(value) for key, value in keywords.items()}
            return _wrapped(await asyncio.to_thread(found, *given, **named))

        return call

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await asyncio.to_thread(self.blocking.close)

    def __repr__(self) -> str:
        return f"<weft.aio {self.blocking!r}>"


class Volume(_Async):
    """A volume: :class:`weft.Volume`, each method a coroutine."""


class File(_Async):
    """An attached file: :class:`weft.File`, each method a coroutine."""

    _asks = frozenset(["size"])


class View(_Async):
    """A view: :class:`weft.View`, each method a coroutine."""

    _asks = frozenset(["size"])

    async def read_into(self, buffer: Any, offset: int = 0) -> int:
        """Fills a buffer from byte ``offset`` on."""
        pattern = weft.Pattern.bytes(memoryview(buffer).nbytes)
        return await wait(self.blocking.post_read(buffer, pattern, offset))

    async def write(self, data: Any, offset: int = 0, *, synced: bool = False) -> int:
        """Writes from byte ``offset`` on."""
        pattern = weft.Pattern.bytes(memoryview(data).nbytes)
        return await wait(self.blocking.post_write(data, pattern, offset, synced=synced))

    async def read_request(self, *arguments: Any, **keywords: Any) -> int:
        """As :meth:`weft.View.read_request`."""
        return await wait(self.blocking.post_read(*arguments, **keywords))

    async def write_request(self, *arguments: Any, **keywords: Any) -> int:
        """As :meth:`weft.View.write_request`."""
        return await wait(self.blocking.post_write(*arguments, **keywords))

    async def sync(self) -> None:
        """Returns when all that was written to the file survives power loss."""
        await wait(self.blocking.post_sync())


class Array(_Async):
    """An array in a file: :class:`weft.array.Array`, each method a coroutine."""

    async def read_into(self, key: Any, out: Any, group: Any = None) -> None:
        """Reads the elements that an index names into ``out``."""
        await wait(self.blocking.post_read(key, out, group))

    async def write(self, key: Any, value: Any, group: Any = None, *, synced: bool = False) -> None:
        """Writes the elements that an index names."""
        await wait(self.blocking.post_write(key, value, group, synced=synced))


_WRAPPERS = {weft.File: File, weft.View: View}


def _wrapped(value: Any) -> Any:
    wrapper = _WRAPPERS.get(type(value))
    if wrapper is not None:
        return wrapper(value)
    if type(value).__module__ == "weft.array":
        return Array(value)
    return value


def _blocking(value: Any) -> Any:
    return value.blocking if isinstance(value, _Async) else value


async def connect(*arguments: Any, **keywords: Any) -> Volume:
    """Connects to a volume, as :class:`weft.Volume` does."""
    return Volume(await asyncio.to_thread(functools.partial(weft.Volume, *arguments, **keywords)))
