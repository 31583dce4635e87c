"""Open files of :mod:`weft.fs`, as the ``io`` module has them.

A :class:`RawFile` turns each call into one request on the view of all bytes. Python's own buffers
stand over it, because they are in C and already right: text, lines, peeking and mixed reads and
writes. This module adds only what fsspec's users expect of an open file.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, Optional

from . import File, Operation, Pattern, View

if TYPE_CHECKING:
    from .fs import WeftFileSystem

# A read fetches at least this much: one request to each of four servers, at 256 KiB per cell.
READ_BUFFER = 1 << 20
# Longer reads keep the servers busy by themselves.
READ_AHEAD = 4 << 20
# Bytes are kept until a write is worth the messages.
WRITE_BUFFER = 4 << 20


def read_into(view: View, buffer: Any, start: int) -> int:
    """Fills a buffer from ``start`` on. Returns how many of its bytes lie below the file's end.

    A view counts the bytes that the cells have: fewer at the end of the file, and where it is
    sparse. Only the size tells which.
    """
    length = memoryview(buffer).nbytes
    read = view.read_into(buffer, start)
    return read if read == length else min(max(view.size - start, 0), length)


class RawFile(io.RawIOBase):
    """An attached file with a position; each read and write is one request.

    A file that is open for reading only reads ahead: after two reads in a row the next one, of the
    same length, is under way while the caller works on these bytes.

    In append mode every write goes to the end that the file has then. The end is asked for and the
    bytes are written in two steps: clients that append at the same time need a lock.
    """

    def __init__(self, file: File, mode: str) -> None:
        self.file = file
        self.mode = mode
        self.name = file.path
        self._view = file.view()
        self._position = 0
        self._reads = "r" in mode or "+" in mode
        self._writes = "r" not in mode or "+" in mode
        self._appends = "a" in mode
        self._ahead: Optional[_Ahead] = None
        self._end = -1  # Where the last read ended.

    def readable(self) -> bool:
        """Whether the mode allows reads."""
        return self._reads

    def writable(self) -> bool:
        """Whether the mode allows writes."""
        return self._writes

    def seekable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer by one request. Returns the bytes that the file had."""
        self._check(self._reads, "read")
        start, length = self._position, memoryview(buffer).nbytes
        ahead, self._ahead = self._ahead, None
        if ahead is None or not ahead.fills(buffer, start):
            read = read_into(self._view, buffer, start)
        else:
            read = length
        self._position += read
        if not self._writes and read == length and 0 < length <= READ_AHEAD and start == self._end:
            self._ahead = _Ahead(self._view, self._position, length)
        self._end = self._position
        return read

    def readall(self) -> bytes:
        """The bytes from the position to the end, by one request."""
        self._check(self._reads, "read")
        data = bytearray(max(0, self.file.size - self._position))
        read = self.readinto(data) if data else 0
        return bytes(memoryview(data)[:read])

    def write(self, data: Any) -> int:
        """Writes all the bytes by one request."""
        self._check(self._writes, "write")
        if self._appends:
            self._position = self.file.size
        written = self._view.write(data, self._position)
        self._position += written
        return written

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves the position. A position behind the end is legal."""
        self._check(True, "seek")
        if whence == os.SEEK_SET:
            position = offset
        elif whence == os.SEEK_CUR:
            position = self._position + offset
        elif whence == os.SEEK_END:
            position = self.file.size + offset
        else:
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        if position < 0:
            raise ValueError(f"position {position} is before the file begins")
        self._position = position
        return position

    def tell(self) -> int:
        """The position."""
        self._check(True, "tell")
        return self._position

    def truncate(self, size: Optional[int] = None) -> int:
        """Sets the size, by default to the position. The position stays."""
        self._check(self._writes, "truncate")
        wanted = self._position if size is None else size
        if wanted < 0:
            raise ValueError(f"a file cannot have {wanted} bytes")
        self.file.truncate(wanted)
        return wanted

    def fsync(self) -> None:
        """Returns when all that was written survives power loss."""
        self._check(True, "fsync")
        self.file.sync()

    def close(self) -> None:
        """Closes the file. A second call does nothing."""
        if self.closed:
            return
        self._ahead = None
        try:
            self.file.close()
        finally:
            super().close()

    def _check(self, allowed: bool, what: str) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not allowed:
            raise io.UnsupportedOperation(f"{what}: {self.name} is open with mode {self.mode!r}")


class _Ahead:
    """A read that was posted before anyone asked for its bytes."""

    def __init__(self, view: View, start: int, length: int) -> None:
        self._start, self._process = start, os.getpid()
        self._data = bytearray(length)
        self._operation: Operation = view.post_read(self._data, Pattern.bytes(length), start)

    def fills(self, buffer: Any, start: int) -> bool:
        """Whether it was this read, and has filled the buffer. Else the caller reads by itself:

        also where the file ended, because it may have grown since, and where the read failed,
        because the second try gives the error that belongs to it.
        """
        if self._process != os.getpid() or start != self._start:
            return False
        target = memoryview(buffer).cast("B")
        if len(target) != len(self._data):
            return False
        try:
            if self._operation.wait() < len(self._data):
                return False
        except OSError:
            return False
        target[:] = self._data
        return True


class OpenedFile:
    """What an open file of fsspec has beside the methods of ``io``.

    A file of a transaction (``autocommit`` is false) is written under a temporary name beside its
    own. ``commit()`` gives it its name, ``discard()`` removes it.
    """

    fs: "WeftFileSystem"
    path: str
    autocommit: bool
    temporary: Optional[str]
    blocksize: int
    _size: Optional[int]

    def _belongs(
        self, fs: "WeftFileSystem", path: str, temporary: Optional[str], blocksize: int
    ) -> None:
        self.fs, self.path, self.temporary, self.blocksize = fs, path, temporary, blocksize
        self.autocommit = temporary is None
        self._size = None

    @property
    def size(self) -> int:
        """The bytes of the file. A reader asks once; a writer asks each time, and flushes first."""
        if self.closed:  # type: ignore[attr-defined]
            if self._size is None:
                raise ValueError("I/O operation on closed file")
            return self._size
        if self._size is None or self.raw.writable():  # type: ignore[attr-defined]
            self.flush()  # type: ignore[attr-defined]
            self._size = self.raw.file.size  # type: ignore[attr-defined]
        return self._size

    @property
    def full_name(self) -> str:
        """The URL of the file."""
        return self.fs.unstrip_protocol(self.path)

    def info(self) -> dict:
        """What is known of the file; see :meth:`weft.fs.WeftFileSystem.info`."""
        return dict(self.fs.info(self.temporary or self.path), name=self.path)

    def fsync(self) -> None:
        """Returns when all that was written survives power loss."""
        self.flush()  # type: ignore[attr-defined]
        self.raw.fsync()  # type: ignore[attr-defined]

    def commit(self) -> None:
        """Gives a file of a transaction its name: readers see the old bytes or all the new ones."""
        if self.temporary is None:
            raise RuntimeError("the file belongs to no transaction: it has its name already")
        exclusive = "x" in self.raw.mode  # type: ignore[attr-defined]
        try:
            self.close()  # type: ignore[attr-defined]
            self.fs.volume.rename(self.temporary, self.path, replace=not exclusive)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Removes a file of a transaction."""
        if self.temporary is None:
            raise RuntimeError("the file belongs to no transaction: it has its name already")
        try:
            self.close()  # type: ignore[attr-defined]
        finally:
            try:
                self.fs.volume.unlink(self.temporary)
            except FileNotFoundError:
                pass

    def __reduce_ex__(self, protocol: Any) -> tuple:
        mode = self.raw.mode  # type: ignore[attr-defined]
        if mode != "rb":
            raise TypeError(f"cannot pickle {self.path}: it is open for writing")
        position = self.tell()  # type: ignore[attr-defined]
        return reopen, (self.fs, self.path, self.blocksize, position)

    def __reduce__(self) -> tuple:
        return self.__reduce_ex__(2)

    def __repr__(self) -> str:
        return f"<weft.fs file {self.path!r}, mode {self.raw.mode!r}>"  # type: ignore[attr-defined]


class Reader(OpenedFile, io.BufferedReader):
    """A file that is open for reading. A small read fetches a whole buffer.

    What another client writes into bytes that the buffer has, or that are read ahead, is seen after
    a seek to a place outside the buffer, or when the file is opened again.
    """


class Writer(OpenedFile, io.BufferedWriter):
    """A file that is open for writing. The buffer is sent when it is full, flushed or closed."""


class Random(OpenedFile, io.BufferedRandom):
    """A file that is open for both."""


def opened(
    fs: "WeftFileSystem",
    path: str,
    file: File,
    mode: str,
    blocksize: Optional[int],
    temporary: Optional[str],
) -> Any:
    """The buffered file over an attached one."""
    raw = RawFile(file, mode)
    if blocksize is None:
        blocksize = READ_BUFFER if mode == "rb" else WRITE_BUFFER
    kind = Random if "+" in mode else Reader if mode == "rb" else Writer
    buffered = kind(raw, blocksize)
    buffered._belongs(fs, path, temporary, blocksize)
    if "a" in mode:
        buffered.seek(0, os.SEEK_END)
    return buffered


def reopen(fs: "WeftFileSystem", path: str, blocksize: int, position: int) -> Any:
    """A reader as it was pickled."""
    reader = fs.open(path, "rb", block_size=blocksize)
    reader.seek(position)
    return reader
