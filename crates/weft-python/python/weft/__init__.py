"""The client of a Weft volume for Python.

>>> import weft
>>> volume = weft.Volume()                     # the volume that WEFT_VOLUME names
>>> with volume.attach("/hello", write=True, create=True) as file:
...     view = file.view()
...     view.write(b"hello")
5
>>> bytes(volume.read("/hello"))
b'hello'

Views, patterns, groups and operations are those of the Weft library; ``weft.array`` has arrays for
NumPy, ``weft.aio`` the same for asyncio, and ``weft.fs`` a file system for fsspec (``weft://``).
Every failure is an ``OSError`` with errno, reason and file. Handles may be used by any thread, be
pickled, and be used after ``fork``.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any, Optional, Sequence, Union

from . import _weft
from ._weft import (
    Checkpoint,
    Entry,
    File,
    Operation,
    Pattern,
    Quota,
    SharedPointer,
    Stat,
    View,
    __version__,
    wait_any,
)

if TYPE_CHECKING:
    from .array import Array

Path = Union[str, bytes, "os.PathLike[str]"]

__all__ = [
    "Checkpoint",
    "Entry",
    "File",
    "Group",
    "Operation",
    "Pattern",
    "Quota",
    "SharedPointer",
    "Stat",
    "View",
    "Volume",
    "__version__",
    "wait_any",
]


class Volume(_weft.Volume):
    """A volume, and this process's connection to it.

    ``folder`` is the volume's folder; or ``address`` (``HOST:PORT``) and ``key_file``. Without
    either, ``WEFT_VOLUME``, or ``WEFT_ADDRESS`` and ``WEFT_KEY_FILE``, name it. A process needs one
    connection, however many threads it has. A child of ``fork`` connects at its first call.
    """

    def __enter__(self) -> "Volume":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def read(self, path: Path) -> bytearray:
        """All bytes of a file."""
        with self.attach(path) as file:
            data = bytearray(file.size)
            file.view().read_into(data)
            return data

    def write(self, path: Path, data: Any, *, permissions: int = 0o644) -> None:
        """Makes a file with these bytes, or replaces all bytes of one that is there.

        A reader sees the old file or the new one: the bytes are written under another name first.
        """
        name = os.fsdecode(path)
        temporary = f"{name}.{uuid.uuid4().hex}"
        try:
            with self.attach(
                temporary, write=True, create=True, exclusive=True, permissions=permissions
            ) as file:
                file.view().write(data)
            self.rename(temporary, name)
        except BaseException:
            try:
                self.unlink(temporary)
            except FileNotFoundError:
                pass
            raise

    def array(
        self,
        path: Path,
        shape: Union[int, Sequence[int]],
        dtype: Any = float,
        order: str = "C",
        *,
        chunks: Optional[Union[int, Sequence[int]]] = None,
        cells: Optional[int] = None,
        exclusive: bool = False,
        overwrite: bool = False,
    ) -> "Array":
        """Creates a file that holds an array, full of zeros; see :class:`weft.array.Array`.

        If it holds an array of this shape and type already, that one is opened for writing: so all
        processes of a job may make the same call. Anything else in it is a FileExistsError, or with
        ``overwrite`` gone. With ``exclusive`` no file may be there.
        """
        from .array import create

        return create(self, path, shape, dtype, order, chunks, cells, exclusive, overwrite)

    def open_array(self, path: Path, *, write: bool = False) -> "Array":
        """Opens the array that a file says it holds; see :class:`weft.array.Array`."""
        from .array import open_array

        return open_array(self, path, write)


class Group(_weft.Group):
    """A member's place in a group of processes or threads that make collective calls.

    All members call the collectives of a group in the same order. ``id`` is 1 to 64 bytes that no
    other group uses at the same time. A server waits ``wait`` seconds (30) for members after the
    first; then the call fails for all, or with ``go_on`` is done without them. Members that write
    the same bytes are refused, or with ``member_order`` the highest number wins.
    """

    @classmethod
    def from_mpi(cls, comm: Any, **options: Any) -> "Group":
        """The group of the processes of an mpi4py communicator. Collective over it."""
        if not hasattr(comm, "Get_rank"):
            raise TypeError(f"{comm!r} is no communicator of mpi4py")
        name = uuid.uuid4().hex if comm.Get_rank() == 0 else None
        name = comm.bcast(name, root=0)
        return cls(name, comm.Get_size(), comm.Get_rank(), **options)
