"""Files that get their names when they are complete."""

from __future__ import annotations

import contextlib
import os
import random
import uuid
from typing import Any, Optional

from .. import File, Path, Volume

_SUFFIX = ".saving"


class Saving:
    """A file that is being written under another name. It takes the place of ``path`` at the end; if
    it comes to none, nothing is left. A context manager."""

    def __init__(self, volume: Volume, path: str, temporary: str, file: File) -> None:
        self.file = file
        self.path = path
        self.temporary = temporary
        self._volume = volume

    @classmethod
    def begin(cls, volume: Volume, path: Path, layout: Optional[Any] = None) -> "Saving":
        """Creates the file. What savers left that died is removed."""
        path = os.fsdecode(path)
        _remove_left(volume, path)
        name = f"{path}.{uuid.uuid4().hex}{_SUFFIX}"
        file = volume.attach(name, write=True, create=True, exclusive=True, layout=layout)
        owner = random.getrandbits(63)
        try:
            # As long as its saver lives.
            file.lock(owner=owner)
        except BaseException:
            file.close()
            volume.unlink(name)
            raise
        return cls(volume, path, name, file)

    def finish(self, sync: bool) -> None:
        """Gives the file its name."""
        if sync:
            self.file.sync()
        self._volume.rename(self.temporary, self.path)
        if sync:
            self._volume.sync_names()
        self.file.close()

    def abandon(self) -> None:
        """Removes the file, if it has not got its name."""
        if not self.file.closed:
            self.file.close()
            with contextlib.suppress(FileNotFoundError):
                self._volume.unlink(self.temporary)

    def __enter__(self) -> "Saving":
        return self

    def __exit__(self, *_: Any) -> None:
        self.abandon()


def _remove_left(volume: Volume, path: str) -> None:
    folder, _, name = path.rpartition("/")
    for entry in volume.list(folder or "/"):
        if not (entry.name.startswith(f"{name}.") and entry.name.endswith(_SUFFIX)):
            continue
        left = f"{folder}/{entry.name}"
        with contextlib.suppress(FileNotFoundError):
            with volume.attach(left, write=True) as file:
                # Another saver of the same file is at work if it has its lock.
                if file.lock(wait_for_it=False, owner=random.getrandbits(63)):
                    volume.unlink(left)
