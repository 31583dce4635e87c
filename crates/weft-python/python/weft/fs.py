"""A file system for fsspec: ``weft://`` in pandas, pyarrow, zarr, xarray, dask and DuckDB.

>>> import fsspec
>>> with fsspec.open("weft:///table.csv", "w") as file:
...     _ = file.write("a,b\\n1,2\\n")
>>> fsspec.filesystem("weft").cat_ranges(["/table.csv", "/table.csv"], [0, 4], [3, 7])
[b'a,b', b'1,2']

``weft:///path`` is a path of the volume that the options name (``folder``, or ``address`` and
``key_file``) or else the environment, as for :class:`weft.Volume`. ``weft://HOST:PORT/path`` names
the volume by its address.

The ranges that ``cat_ranges`` reads of a file are one list request. ``pipe``, ``put`` and ``cp``
write under a temporary name and rename: a reader sees the old bytes or all the new ones. ``open``
with mode ``w`` truncates and writes in place; in a transaction it does as they do.

The methods block, and release the interpreter's lock. Those that fsspec names with an underscore
(``_cat_file``, ``_ls``, …) are coroutines for asyncio, of which each runs in a thread.

Deliberately absent: a cache of listings. Each listing is one request and always fresh.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import errno
import os
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Iterator, Optional, Sequence, Union

import fsspec
from fsspec import AbstractFileSystem
from fsspec.callbacks import NoOpCallback
from fsspec.transaction import Transaction
from fsspec.utils import stringify_path, tokenize

from . import File, Stat, Volume, _pickle, _raw

# Bytes that a copy holds in memory, and that a read allocates without asking for the file's size.
CHUNK = 8 << 20
# Files that one call of cat_ranges reads at the same time.
PARALLEL_FILES = 8

_NO_CALLBACK = NoOpCallback()
_MISSING = (FileNotFoundError, NotADirectoryError)


class _OfEnvironment(type(AbstractFileSystem)):  # type: ignore[misc]
    """fsspec keeps instances by their options. This adds the environment, which names a volume."""

    @property
    def _environment(cls) -> tuple:
        names = ("WEFT_VOLUME", "WEFT_ADDRESS", "WEFT_KEY_FILE")
        return tuple(os.environ.get(name) for name in names)


class WeftTransaction(Transaction):
    """Files that get their names together, at the end of a ``with fs.transaction`` block.

    Each rename is atomic, all of them together are not. Where one fails, the files before it have
    their names, those after it are removed, and the transaction has ended. (Some versions of fsspec
    would go on with it, and keep all that is written later under temporary names.)
    """

    def complete(self, commit: bool = True) -> None:
        """Commits or discards all files."""
        fs = self.fs
        try:
            super().complete(commit)
        except BaseException:
            while self.files:
                with contextlib.suppress(OSError):
                    self.files.popleft().discard()
            raise
        finally:
            fs._intrans, fs._transaction, self.fs = False, None, None


class WeftFileSystem(AbstractFileSystem, metaclass=_OfEnvironment):
    """A Weft volume as a file system of fsspec.

    ``folder``, or ``address`` and ``key_file``, name the volume; see :class:`weft.Volume`. All
    instances and threads of a process share a connection. With ``auto_mkdir`` (the default) a new
    file makes the directories that it needs, as in object stores; that costs nothing when they are
    there. An instance may be pickled, and used after ``fork``.

    ``permissions`` and ``layout`` (see :meth:`weft.Volume.attach`) are options of every method that
    creates a file.
    """

    protocol = "weft"
    root_marker = "/"
    transaction_type = WeftTransaction
    _extra_tokenize_attributes = ("_environment",)

    def __init__(
        self,
        folder: Optional[Union[str, "os.PathLike[str]"]] = None,
        *,
        address: Optional[str] = None,
        key_file: Optional[Union[str, "os.PathLike[str]"]] = None,
        auto_mkdir: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.auto_mkdir = auto_mkdir
        self.address = address
        if folder is None and address is None:
            folder = os.environ.get("WEFT_VOLUME") or None
            if folder is None:
                address = os.environ.get("WEFT_ADDRESS") or None
        if address is not None and key_file is None:
            key_file = os.environ.get("WEFT_KEY_FILE") or None
        self._named = {
            "folder": None if folder is None else os.path.abspath(folder),
            "address": address,
            "key_file": None if key_file is None else os.path.abspath(key_file),
        }
        self.volume: Volume = _pickle.connect(self._named, now=True)

    # Names.

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        _, path = _split(path)
        return "/" + "/".join(part for part in path.split("/") if part)

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict:
        address, _ = _split(path)
        return {} if address is None else {"address": address}

    def unstrip_protocol(self, name: str) -> str:
        """The URL of a path; it names the volume's address if this instance was made with one."""
        return f"weft://{self.address or ''}{self._strip_protocol(name)}"

    @property
    def fsid(self) -> str:
        """Names the volume: equal for all instances that were told of it in the same way."""
        return f"weft_{tokenize(self._named)}"

    # What is there.

    def info(self, path: str, **_: Any) -> dict:
        """What is known of a path; a symbolic link is followed.

        ``type`` is that of the link's target, and ``link`` if it has none.
        """
        name = self._strip_protocol(path)
        stat = self.volume.stat(name, follow=False)
        return self._followed(name, stat) if stat.kind == "link" else _info(name, stat)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list:
        """The entries of a directory, or the file itself: one request.

        The size of a file that another client writes at the moment may be older than that of
        ``info``. A link to a directory has type ``link``: recursive calls do not follow it.
        """
        name = self._strip_protocol(path)
        try:
            entries = self.volume.list(name)
        except NotADirectoryError:
            return [self.info(name)] if detail else [name]
        prefix = name.rstrip("/")
        listed: list = []
        for entry in entries:
            child = f"{prefix}/{entry.name}"
            if not detail:
                listed.append(child)
                continue
            if entry.kind != "link":
                listed.append(_info(child, entry.stat))
                continue
            try:
                found = self._followed(child, entry.stat)
            except FileNotFoundError:
                continue  # Removed since.
            if found["type"] == "directory":
                found["type"] = "link"
            listed.append(found)
        return listed

    def _followed(self, name: str, link: Stat) -> dict:
        destination = self.volume.readlink(name)
        try:
            found = _info(name, self.volume.stat(name))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES):
                raise
            found = _info(name, link)
        return dict(found, islink=True, destination=destination)

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is a file or a directory; a link is followed."""
        return self._kind(path) is not None

    def lexists(self, path: str, **_: Any) -> bool:
        """Whether the name is taken; a link that leads nowhere counts."""
        return self._kind(path, follow=False) is not None

    def isdir(self, path: str) -> bool:
        """Whether the path is a directory; a link is followed."""
        return self._kind(path) == "directory"

    def isfile(self, path: str) -> bool:
        """Whether the path is a file; a link is followed."""
        return self._kind(path) == "file"

    def islink(self, path: str) -> bool:
        """Whether the path is a symbolic link."""
        return self._kind(path, follow=False) == "link"

    def _kind(self, path: str, follow: bool = True) -> Optional[str]:
        try:
            return self.volume.stat(self._strip_protocol(path), follow=follow).kind
        except _MISSING:
            return None

    def created(self, path: str) -> datetime.datetime:
        """When the file was created."""
        return _time(self.volume.stat(self._strip_protocol(path)).created_ns)

    def modified(self, path: str) -> datetime.datetime:
        """When the file's bytes were last changed."""
        return _time(self.volume.stat(self._strip_protocol(path)).modified_ns)

    def checksum(self, path: str) -> int:
        """A number that changes with the file: of its id, size and times, not of its bytes."""
        return int(self.ukey(path), 16)

    def ukey(self, path: str) -> str:
        """The same as text."""
        stat = self.volume.stat(self._strip_protocol(path))
        return tokenize(stat.id, stat.size, stat.modified_ns, stat.changed_ns)

    # Changes of names.

    def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
        """Makes a directory, and those above it. ``permissions`` may be given."""
        name = self._strip_protocol(path)
        self._in_parents(name, create_parents, lambda: self.volume.mkdir(name, **options))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a directory, and those above it."""
        name = self._strip_protocol(path)
        try:
            self.mkdir(name)
        except FileExistsError:
            if not exist_ok or not self.isdir(name):
                raise

    def rmdir(self, path: str) -> None:
        """Removes an empty directory."""
        self.volume.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        """Removes a file or a link."""
        self.volume.unlink(self._strip_protocol(path))

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        """Removes files; with ``recursive`` also directories and all that is in them.

        Links are removed, and not what they lead to. With ``maxdepth``, a directory that still has
        entries is an error, as in ``rmdir``.
        """
        if maxdepth is not None:
            for name in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
                self._remove(name, recursive, deep=False)
            return
        for name in self.expand_path(path):
            self._remove(name, recursive, deep=True)

    def _remove(self, name: str, directories: bool, deep: bool) -> None:
        try:
            self.volume.unlink(name)
        except IsADirectoryError:
            if not directories:
                raise
            if deep:
                for entry in self.volume.list(name):
                    with contextlib.suppress(FileNotFoundError):
                        self._remove(f"{name.rstrip('/')}/{entry.name}", True, True)
            if name != "/":
                self.volume.rmdir(name)

    def mv(
        self,
        path1: Any,
        path2: Any,
        recursive: bool = False,
        maxdepth: Optional[int] = None,
        **options: Any,
    ) -> None:
        """Renames files and whole directories; each is atomic and moves no bytes.

        A file that has the new name is replaced. Into a directory that is there (or a name that
        ends with a slash) a file is moved under its own name. ``recursive`` is of no importance.
        """
        if maxdepth is not None:
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)
            return
        if isinstance(path1, list) and isinstance(path2, list):
            if len(path1) != len(path2):
                raise ValueError(f"{len(path1)} files for {len(path2)} new names")
            pairs = list(zip(self._strip_protocol(path1), self._strip_protocol(path2)))
        else:
            olds = self.expand_path(path1)
            new = stringify_path(path2)
            several = len(olds) > 1 or isinstance(path1, list)
            if several or new.endswith("/") or self.isdir(new):
                into = self._strip_protocol(new).rstrip("/")
                pairs = [(old, f"{into}/{old.rsplit('/', 1)[1]}") for old in olds]
            else:
                pairs = [(olds[0], self._strip_protocol(new))]
        for old, new in pairs:
            if old == new:
                continue
            self._rename(old, new)

    def _rename(self, old: str, new: str) -> None:
        try:
            self.volume.rename(old, new)
        except FileNotFoundError:
            if not self.auto_mkdir or not self.lexists(old):
                raise
            self._in_parents(new, True, lambda: self.volume.rename(old, new))

    def link(self, src: str, dst: str, **_: Any) -> None:
        """Gives a file another name."""
        self.volume.link(self._strip_protocol(src), self._strip_protocol(dst))

    def symlink(self, src: str, dst: str, **_: Any) -> None:
        """Makes a symbolic link ``dst`` to ``src``."""
        self.volume.symlink(self._strip_protocol(src), self._strip_protocol(dst))

    def chmod(self, path: str, mode: int) -> None:
        """Sets permissions."""
        self.volume.set_attributes(self._strip_protocol(path), permissions=mode)

    def touch(self, path: str, truncate: bool = True, **options: Any) -> None:
        """Creates an empty file. One that is there gets the time of now, and loses its bytes if
        ``truncate`` says so."""
        if self._intrans and (truncate or not self.exists(path)):
            with self.open(path, "wb", **options):
                return
        name = self._strip_protocol(path)
        with self._create(name, **options) as file:
            if file.created:
                return
            if truncate:
                file.truncate(0)
        self.volume.set_attributes(name, modified_ns=time.time_ns())

    # Bytes.

    def cat(
        self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any
    ) -> Any:
        """The bytes of files: a dictionary if there may be several.

        With ``recursive``, those of all files in a directory.
        """
        if recursive:
            found: dict = {}
            for name in self.expand_path(path):
                found.update(self.find(name, detail=True))
            path = [name for name, info in found.items() if info.get("type") != "link"]
            if not path:
                return {}
        return super().cat(path, on_error=on_error, **options)

    def cat_file(
        self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_: Any
    ) -> bytes:
        """The bytes of a file, or those from ``start`` to ``end``, which count as in slices."""
        with self._attach(self._strip_protocol(path)) as file:
            return _read_ranges(file, [(start, end)])[0]

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: Any,
        ends: Any,
        max_gap: Optional[int] = None,
        on_error: str = "return",
        **_: Any,
    ) -> list:
        """Ranges of files: those of one file are one list request to each server that has bytes.

        ``starts`` and ``ends`` are lists, or one value for all, and count as in slices.
        ``on_error="return"`` puts the exception in the place of the bytes. ``max_gap`` needs no
        attention: a list request reads no gaps.
        """
        if not isinstance(paths, (list, tuple)):
            raise TypeError("paths is a list")
        starts = starts if isinstance(starts, (list, tuple)) else [starts] * len(paths)
        ends = ends if isinstance(ends, (list, tuple)) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError(f"{len(paths)} paths, {len(starts)} starts and {len(ends)} ends")
        of_file: dict[str, list[int]] = {}
        for place, path in enumerate(paths):
            of_file.setdefault(self._strip_protocol(path), []).append(place)
        results: list = [b""] * len(paths)

        def read(name: str) -> None:
            places = of_file[name]
            try:
                with self._attach(name) as file:
                    found: list = _read_ranges(file, [(starts[at], ends[at]) for at in places])
            except OSError as error:
                if on_error == "raise":
                    raise
                found = [error] * len(places)
            for place, data in zip(places, found):
                results[place] = data

        if len(of_file) == 1:
            read(next(iter(of_file)))
        elif of_file:
            with ThreadPoolExecutor(min(PARALLEL_FILES, len(of_file))) as threads:
                list(threads.map(read, of_file))
        return results

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **options: Any) -> None:
        """Makes a file with these bytes; ``mode="create"`` refuses a name that is taken."""
        if self._intrans:
            with self.open(path, "xb" if mode == "create" else "wb", **options) as deferred:
                deferred.write(value)
            return
        with self._replacing(self._strip_protocol(path), mode == "create", **options) as file:
            file.view().write(value)

    def cp_file(self, path1: str, path2: str, **options: Any) -> None:
        """Copies a file; of a directory makes an empty one."""
        old, new = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(old):
            self.makedirs(new, exist_ok=True)
            return
        if not self._intrans:
            with self._attach(old) as source, self._replacing(new, False, **options) as target:
                # By the servers: no byte comes through here.
                target.copy_from(source)
            return
        with _raw.RawFile(self._attach(old), "rb") as source:
            with self._written(new, False, **options) as write:
                _copy(source.readinto, write)

    def put_file(
        self,
        lpath: Any,
        rpath: str,
        callback: Any = _NO_CALLBACK,
        mode: str = "overwrite",
        **options: Any,
    ) -> None:
        """Copies a local file into the volume; of a directory makes an empty one."""
        if os.path.isdir(lpath):
            self.makedirs(rpath, exist_ok=True)
            return
        with open(lpath, "rb", buffering=0) as source:
            callback.set_size(os.fstat(source.fileno()).st_size)
            with self._written(self._strip_protocol(rpath), mode == "create", **options) as write:
                _copy(source.readinto, write, callback)

    @contextlib.contextmanager
    def _written(self, name: str, exclusive: bool, **options: Any) -> Iterator[Any]:
        """A function that appends to a file which has its name when all is written."""
        if self._intrans:
            with self.open(name, "xb" if exclusive else "wb", **options) as deferred:
                yield deferred.write
            return
        with self._replacing(name, exclusive, **options) as file:
            yield _appends(file)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: Optional[int] = None,
        autocommit: bool = True,
        cache_options: Optional[dict] = None,
        **options: Any,
    ) -> Any:
        name = self._strip_protocol(path)
        kinds = [letter for letter in mode if letter in "rwax"]
        if len(kinds) != 1 or set(mode) - set("rwaxb+") or len(set(mode)) != len(mode):
            raise ValueError(f"mode {mode!r}: it has one of r, w, a and x, and may have + and b")
        kind = kinds[0]
        mode = kind + "b" + ("+" if "+" in mode else "")
        if block_size is not None and block_size < 1:
            raise ValueError(f"block_size {block_size} is not positive")
        if kind == "r":
            if mode == "rb+" and not autocommit:
                raise ValueError("a transaction cannot undo writes of mode r+: use mode w or a")
            file = self._attach(name, write=mode != "rb")
            return _closing(file, lambda: _raw.opened(self, name, file, mode, block_size, None))
        if not autocommit:
            return self._open_deferred(name, mode, block_size, options)
        file = self._create(name, exclusive=kind == "x", **options)

        def begin() -> Any:
            if kind == "w" and not file.created:
                file.truncate(0)
            return _raw.opened(self, name, file, mode, block_size, None)

        return _closing(file, begin)

    def _open_deferred(
        self, name: str, mode: str, block_size: Optional[int], options: dict
    ) -> Any:
        """A file of a transaction, under a temporary name."""
        if "x" in mode and self.lexists(name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        if self.isdir(name):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        temporary = _beside(name)
        file = self._create(temporary, exclusive=True, **options)

        def begin() -> Any:
            if "a" in mode and self.exists(name):
                with _raw.RawFile(self._attach(name), "rb") as source:
                    _copy(source.readinto, _appends(file))
            return _raw.opened(self, name, file, mode, block_size, temporary)

        return _closing(file, begin, lambda: self.volume.unlink(temporary))

    # Attaching.

    def _attach(self, name: str, write: bool = False) -> File:
        try:
            return self.volume.attach(name, write=write)
        except OSError as error:
            if error.errno == errno.EINVAL and self.isdir(name):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name) from None
            raise

    def _create(self, name: str, exclusive: bool = False, **options: Any) -> File:
        """Attaches a file that is created if it is not there, and the directories above it."""
        known = {key: options[key] for key in ("permissions", "layout") if key in options}

        def attach() -> File:
            return self.volume.attach(name, write=True, create=True, exclusive=exclusive, **known)

        return self._in_parents(name, self.auto_mkdir, attach)

    def _in_parents(self, name: str, make: bool, call: Any) -> Any:
        """Calls; and again, if directories above ``name`` are missing and ``make`` has them made.

        So directories cost no request when they are there. The second call is also right when they
        are there by now: another thread may have made them.
        """
        try:
            return call()
        except FileNotFoundError:
            if not make or name == "/":
                raise
        self.makedirs(self._parent(name), exist_ok=True)
        return call()

    @contextlib.contextmanager
    def _replacing(self, name: str, exclusive: bool, **options: Any) -> Iterator[File]:
        """A file under a temporary name, which has its own when the block has ended well."""
        temporary = _beside(name)
        if exclusive and self.lexists(name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        file = self._create(temporary, exclusive=True, **options)
        try:
            with file:
                yield file
            self.volume.rename(temporary, name, replace=not exclusive)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                self.volume.unlink(temporary)
            raise


def _split(path: Any) -> tuple[Optional[str], str]:
    """The address of a URL, and the path."""
    text = stringify_path(path)
    if not text.startswith("weft://"):
        return None, text
    address, slash, rest = text[len("weft://") :].partition("/")
    if not address:
        return None, slash + rest
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(
            f"{text!r} has no address HOST:PORT before its path: a path of the volume that options "
            "or environment name is weft:///path, with three slashes"
        )
    return address, slash + rest


def _beside(name: str) -> str:
    """A name that no other file has, in the same directory. It may not be longer than names may."""
    directory, _, base = name.rpartition("/")
    kept = os.fsdecode(os.fsencode(base)[:200])
    return f"{directory}/.{kept}.{uuid.uuid4().hex}"


def _info(name: str, stat: Stat) -> dict:
    return {
        "name": name,
        "size": stat.size,
        "type": stat.kind,
        "created": stat.created_ns / 1e9,
        "mtime": stat.modified_ns / 1e9,
        "islink": stat.kind == "link",
        "mode": stat.mode,
        "uid": stat.uid,
        "gid": stat.gid,
        "ino": stat.id,
        "nlink": stat.links,
    }


def _time(nanoseconds: int) -> datetime.datetime:
    seconds, rest = divmod(nanoseconds, 10**9)
    whole = datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
    return whole + datetime.timedelta(microseconds=rest // 1000)


def _closing(file: File, begin: Any, undo: Any = None) -> Any:
    """What ``begin`` makes of the file, which is closed if it fails."""
    try:
        return begin()
    except BaseException:
        file.close()
        if undo is not None:
            undo()
        raise


def _appends(file: File) -> Any:
    """A function that writes to an empty file, each time where it ended before."""
    view, end = file.view(), 0

    def write(data: Any) -> int:
        nonlocal end
        written = view.write(data, end)
        end += written
        return written

    return write


def _copy(readinto: Any, write: Any, callback: Any = _NO_CALLBACK) -> None:
    buffer = memoryview(bytearray(CHUNK))
    while True:
        read = readinto(buffer)
        if not read:
            return
        write(buffer[:read])
        callback.relative_update(read)


def _read_ranges(file: File, ranges: Sequence[tuple[Optional[int], Optional[int]]]) -> list[bytes]:
    """Ranges of a file by one list request.

    The size is asked for only when it matters: a range counts from the end, is so long that its
    memory should be that of the file, or went past the end.
    """
    bounded = all(
        start is not None and start >= 0 and end is not None and end >= 0 for start, end in ranges
    )
    if not bounded or sum(max(0, end - start) for start, end in ranges) > CHUNK:  # type: ignore
        size = file.size
        ranges = [slice(start, end).indices(size)[:2] for start, end in ranges]
    lengths = [max(0, end - start) for start, end in ranges]  # type: ignore[operator]
    buffers = [bytearray(length) for length in lengths]
    runs = [(start, buffer) for (start, _), buffer in zip(ranges, buffers) if buffer]
    if not runs:
        return [b""] * len(buffers)
    view = file.view()
    read = view.read_into(runs[0][1], runs[0][0]) if len(runs) == 1 else view.read_list(runs)
    if read < sum(lengths):
        # The file ends there, or is sparse.
        size = file.size
        for (start, _), buffer in zip(ranges, buffers):
            del buffer[max(0, size - start) :]  # type: ignore[operator]
    return [bytes(buffer) for buffer in buffers]


fsspec.register_implementation("weft", WeftFileSystem, clobber=True)


def _coroutine(name: str) -> Callable[..., Any]:
    async def call(self: WeftFileSystem, *arguments: Any, **keywords: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *arguments, **keywords)

    call.__name__ = f"_{name}"
    return call


for _name in (
    *("ls", "info", "exists", "isfile", "isdir", "size", "du", "walk", "find", "glob"),
    *("cat", "cat_file", "cat_ranges", "pipe", "pipe_file", "get", "get_file", "put", "put_file"),
    *("rm_file", "copy", "cp_file", "mkdir", "makedirs"),
):
    if not hasattr(WeftFileSystem, f"_{_name}"):
        setattr(WeftFileSystem, f"_{_name}", _coroutine(_name))
