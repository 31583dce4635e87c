"""The native half of the package; import its names from ``weft``.

Memory. ``data`` is anything that exports bytes (bytes, bytearray, memoryview, arrays); ``buffer``
likewise, writable. No copy is made of memory that is filled, nor of writes of 64 KiB and more.
Memory stays exported while a call or an operation may touch it.

Errors. A failure of the volume is an OSError (FileNotFoundError and so on) with errno, strerror and
filename. What no call could use is a ValueError, TypeError or BufferError.

Threads and processes. Any thread may use any object, several at a time, except that one thread at a
time uses a Group or an Operation. The interpreter's lock is released while a call waits; ctrl-C ends
the wait. In a child of fork, a Volume connects and a File attaches again at its first use.
"""

import os
from typing import Any, Optional, Sequence, TypedDict, Union, final

Path = Union[str, bytes, os.PathLike[str]]

__version__: str

class Layout(TypedDict, total=False):
    """The layout of a new file; what is not named is as the directory or the volume says."""

    cells: int
    bsu: int  # bytes of a basic striping unit
    chunk: int  # bytes of the unit in which servers store it
    servers: Sequence[int]  # cell i is on the one with index i modulo their number
    replicas: int  # only servers with at least so many
    addressed: bool  # chunks are found by their contents, and stored once

class Volume:
    def __init__(
        self,
        folder: Optional[Union[str, os.PathLike[str]]] = None,
        *,
        address: Optional[str] = None,
        key_file: Optional[Union[str, os.PathLike[str]]] = None,
        name: Optional[str] = None,
        application: Optional[str] = None,
        policy: Optional[str] = None,
        lazy: bool = False,
        connect: bool = True,
    ) -> None:
        """Connects, or without ``connect`` at the first use. ``name`` is what ``weft status`` calls
        this client, ``application`` its job.

        ``policy`` is for files that have none. With ``lazy``, changes of names survive power loss
        a second after they return, or after :meth:`sync_names`.
        """

    def attach(
        self,
        path: Path,
        *,
        write: bool = False,
        create: bool = False,
        exclusive: bool = False,
        cautious: bool = False,
        follow: bool = True,
        permissions: int = 0o644,
        layout: Optional[Layout] = None,
        policy: Optional[str] = None,
    ) -> File:
        """Attaches a file: one request, however deep the path.

        ``create`` makes it if it is not there, ``exclusive`` fails if it is. Operations of a
        ``cautious`` file are atomic, and all happen in one order on all servers.
        """

    def adopt(self, handed: bytes) -> File:
        """Adopts a file that another process attached: see :meth:`File.hand_over`. No message."""

    def stat(self, path: Path, *, follow: bool = True) -> Stat: ...
    def list(self, path: Path) -> list[Entry]:
        """All names of a directory, in ascending order of their bytes."""

    def mkdir(self, path: Path, *, permissions: int = 0o755) -> None: ...
    def rmdir(self, path: Path) -> None: ...
    def unlink(self, path: Path) -> None: ...
    def rename(self, old: Path, new: Path, *, replace: bool = True) -> None:
        """Renames, atomically. Without ``replace``, a name that is there is an error."""

    def exchange(self, one: Path, other: Path) -> None:
        """Exchanges two names, atomically."""

    def link(self, file: Path, name: Path) -> None: ...
    def symlink(self, target: Path, path: Path) -> None: ...
    def readlink(self, path: Path) -> str: ...
    def set_attributes(
        self,
        path: Path,
        *,
        permissions: Optional[int] = None,
        uid: Optional[int] = None,
        gid: Optional[int] = None,
        accessed_ns: Optional[int] = None,
        modified_ns: Optional[int] = None,
        layout: Optional[Layout] = None,
        policy: Optional[str] = None,
        follow: bool = True,
    ) -> Stat:
        """Changes attributes; None leaves one as it is. ``layout`` is for directories: new files
        inherit it. The policy ``""`` takes a policy away."""

    def truncate(self, path: Path, size: int) -> None: ...
    def getxattr(self, path: Path, name: str) -> bytes: ...
    def setxattr(
        self, path: Path, name: str, value: bytes, *, create: bool = False, replace: bool = False
    ) -> None: ...
    def listxattr(self, path: Path) -> list[str]: ...
    def removexattr(self, path: Path, name: str) -> None: ...
    def make_checkpoint(self, path: Path, name: str) -> Checkpoint:
        """Keeps a file, or all that is below a directory, as it is now."""

    def checkpoints(self, path: Path) -> list[Checkpoint]:
        """The checkpoints of a file or directory, oldest first."""

    def remove_checkpoint(self, path: Path, name: str) -> None: ...
    def roll_back(self, path: Path, name: str) -> None:
        """Makes a file or a tree what it is in a checkpoint: one request, whatever the size."""

    def set_quota(
        self,
        *,
        user: Optional[int] = None,
        group: Optional[int] = None,
        tree: Optional[Path] = None,
        bytes_max: Optional[int] = None,
        files_max: Optional[int] = None,
    ) -> Quota:
        """Bounds what a user, a group or a tree may use; None: no bound. Only root may."""

    def clear_quota(
        self,
        *,
        user: Optional[int] = None,
        group: Optional[int] = None,
        tree: Optional[Path] = None,
    ) -> None: ...
    def quotas(self) -> list[Quota]: ...
    def close(self) -> None:
        """Ends the connection, when its files are closed. The next use connects again."""

    def sync_names(self) -> None:
        """Returns when all changes of names by this connection survive power loss."""

    @property
    def requests_sent(self) -> int:
        """Requests that this process has sent to all servers, those of the background included."""

@final
class File:
    """An attached file. Closing it, or leaving its ``with``, detaches it; views end with it."""

    id: int
    path: str
    writable: bool
    created: bool  # the attach made it
    layout: Layout
    size: int  # bytes in canonical order; asks each server
    policy: Optional[str]
    closed: bool

    def stat(self) -> Stat: ...
    def view(self, view: Optional[str] = None, *, fork: Optional[str] = None) -> View:
        """Opens a view: all bytes in their order, or ``"subfile=Vbs,Vn,Hbs,Hn,INDEX"``,
        ``"partition=OFFSET,GSIZE,STRIDE"`` or ``"cell=I"``. No message."""

    def truncate(self, size: int) -> None: ...
    def extend(self, size: int) -> None:
        """Makes the file at least so long."""

    def sync(self) -> None:
        """Returns when all that was written to the file survives power loss."""

    def close(self) -> None: ...
    def copy_from(
        self,
        source: File,
        source_offset: int = 0,
        offset: int = 0,
        length: Optional[int] = None,
    ) -> int:
        """Copies bytes of another file of the volume (None: to its end), by the servers where they
        can. Returns how many."""

    def forks(self) -> list[tuple[int, str, int]]:
        """Cell, name and bytes of every fork."""

    def create_fork(self, cell: int, fork: str) -> None: ...
    def remove_fork(self, cell: int, fork: str) -> None: ...
    def set_policy(self, policy: Optional[str]) -> None:
        """Sets the consistency policy of this attachment."""

    def commit(self) -> None:
        """Sends what the policy of this attachment has delayed."""

    def hand_over(self) -> bytes:
        """Bytes by which other processes adopt the file, so that a job attaches it by one request.
        The process that attached it closes it last."""

    def lock(
        self,
        offset: int = 0,
        length: Optional[int] = None,
        *,
        shared: bool = False,
        wait_for_it: bool = True,
        owner: int = 0,
    ) -> bool:
        """Locks bytes (None: to the end) between all clients; false if a lock is in the way."""

    def unlock(
        self, offset: int = 0, length: Optional[int] = None, *, owner: int = 0
    ) -> None: ...
    def __enter__(self) -> File: ...
    def __exit__(self, *exception: Any) -> None: ...

@final
class View:
    """What a program sees of a file: a linear sequence of bytes, with a pointer of its own.

    Reads put zeros where the file has no bytes. A write that has returned survives the death of any
    process, and with ``synced`` power loss. Each call sends one request to each server.
    """

    file: File
    size: int  # asks each server
    position: int

    def read_into(self, buffer: Any, offset: int = 0) -> int:
        """Fills a buffer from byte ``offset`` on. Returns how many of its bytes the file has."""

    def read_next_into(self, buffer: Any) -> int:
        """As :meth:`read_into`, at the view's pointer, which moves on."""

    def write(self, data: Any, offset: int = 0, *, synced: bool = False) -> int:
        """Writes from byte ``offset`` on. Returns how many bytes were moved."""

    def write_next(self, data: Any) -> int:
        """As :meth:`write`, at the view's pointer, which moves on."""

    def seek(self, offset: int) -> None: ...
    def read_request(
        self,
        buffer: Any,
        pattern: Pattern,
        offset: int = 0,
        *,
        memory: Optional[Pattern] = None,
        group: Optional[Group] = None,
    ) -> int:
        """Reads the bytes that ``pattern`` names, relative to ``offset``.

        They are packed in the buffer, or lie where ``memory`` says, relative to its first element.
        With ``group`` it is a collective: all members call it, each with its own pattern.
        """

    def write_request(
        self,
        data: Any,
        pattern: Pattern,
        offset: int = 0,
        *,
        memory: Optional[Pattern] = None,
        group: Optional[Group] = None,
        synced: bool = False,
        last_wins: bool = False,
    ) -> int:
        """Writes likewise. A byte may be named twice only with ``last_wins``."""

    def read_list(self, runs: Sequence[tuple[int, Any]]) -> int:
        """Reads runs, each an offset and a buffer of its own."""

    def write_list(
        self, runs: Sequence[tuple[int, Any]], *, synced: bool = False, last_wins: bool = False
    ) -> int:
        """Writes runs, each an offset and its data."""

    def post_read(
        self,
        buffer: Any,
        pattern: Pattern,
        offset: int = 0,
        *,
        memory: Optional[Pattern] = None,
        group: Optional[Group] = None,
    ) -> Operation:
        """Begins :meth:`read_request`. Never waits."""

    def post_write(
        self,
        data: Any,
        pattern: Pattern,
        offset: int = 0,
        *,
        memory: Optional[Pattern] = None,
        group: Optional[Group] = None,
        synced: bool = False,
        last_wins: bool = False,
    ) -> Operation:
        """Begins :meth:`write_request`. Never waits."""

    def post_sync(self) -> Operation:
        """Begins :meth:`File.sync`."""

    def prefetch(self, offset: int, length: int) -> int:
        """Has the servers read bytes into their memory. Returns how many they will read."""

    def release(self, offset: int, length: int) -> None:
        """Tells the servers that bytes will not be used soon."""

    def clear(self, offset: int, length: int) -> None:
        """Makes bytes a hole: they read as zeros and take no space."""

    def of_checkpoint(self, number: int) -> View:
        """The same view of a checkpoint of the file, by its number. It can be read only."""

    def shared_pointer(self, name: str) -> SharedPointer:
        """The shared pointer of this name, in units of this view's bytes. No message."""

@final
class Pattern:
    """Which bytes a request touches, relative to where it begins. Patterns are values."""

    @staticmethod
    def bytes(length: int) -> Pattern:
        """Consecutive bytes."""

    def repeat(self, stride: int, times: int) -> Pattern:
        """This one ``times`` times, each ``stride`` bytes after the one before: strided, and
        nested when repeated again. A negative stride goes backwards."""

    @staticmethod
    def sequence(members: Sequence[tuple[int, Pattern]]) -> Pattern:
        """Patterns one after another, each displaced from where the whole begins."""

    @staticmethod
    def runs(runs: Sequence[tuple[int, int]]) -> Pattern:
        """Runs by displacement and length, in any order."""

    @staticmethod
    def runs_of(displacements: Any, lengths: Any) -> Pattern:
        """As :meth:`runs`, from two buffers of 64-bit integers."""

    def __len__(self) -> int:
        """The bytes that it touches."""

class Group:
    def __init__(
        self,
        id: str,
        members: int,
        member: int,
        *,
        wait: Optional[float] = None,
        go_on: bool = False,
        member_order: bool = False,
    ) -> None: ...
    @property
    def members(self) -> int: ...
    @property
    def member(self) -> int: ...
    def skip(self) -> None:
        """Counts a collective that this member does not make, so that it stays in step."""

@final
class SharedPointer:
    """An offset that processes share: each takes the next bytes, and no two the same."""

    position: int

    def take(self, length: int, *, group: Optional[Group] = None) -> int:
        """Takes the next bytes, with a group in the order of its members. Returns where they begin."""

    def read_into(self, buffer: Any, *, group: Optional[Group] = None) -> int: ...
    def write(self, data: Any, *, group: Optional[Group] = None) -> int: ...
    def seek(self, offset: int) -> None: ...
    def remove(self) -> None:
        """Has the server forget the pointer: the next one of this name begins at 0."""

@final
class Operation:
    """An operation in the background. Its memory is exported until it has been waited for."""

    def done(self) -> bool:
        """Whether it has ended. Never waits."""

    def wait(self) -> int:
        """Waits until it has ended, and returns what the call would have returned."""

    def cancel(self) -> None:
        """Has it end early, and gives its memory back."""

    def fileno(self) -> int:
        """A descriptor that becomes readable when it has ended, for select and event loops."""

def wait_any(operations: Sequence[Operation], timeout: Optional[float] = None) -> int:
    """Waits until one of several operations has ended, and returns its index. After ``timeout``
    seconds it raises TimeoutError."""

@final
class Stat:
    """What is known of a file. Times are nanoseconds since 1970."""

    id: int
    kind: str  # "file", "directory", "link" or "other"
    mode: int
    uid: int
    gid: int
    links: int
    size: int
    accessed_ns: int
    modified_ns: int
    changed_ns: int
    created_ns: int
    cells: int
    bsu: int
    chunk: int
    servers: list[int]
    addressed: bool
    policy: Optional[str]

@final
class Entry:
    """A name in a directory. The size of a file that is being written may be older."""

    name: str
    id: int
    kind: str
    stat: Stat

@final
class Checkpoint:
    name: str
    number: int
    made_ns: int
    size: int

@final
class Quota:
    kind: str  # "user", "group" or "tree"
    id: int
    path: str
    bytes: int
    files: int
    bytes_max: Optional[int]
    files_max: Optional[int]
