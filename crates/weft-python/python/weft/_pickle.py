"""How handles are made again in the process that unpickles them."""

from __future__ import annotations

import os
import threading
from typing import Any, Optional

_connections: dict[tuple, Any] = {}
_lock = threading.Lock()


def _forget_connections() -> None:
    # A child makes its own: the lock may have been held by another thread of the parent.
    global _lock
    _lock = threading.Lock()
    _connections.clear()


os.register_at_fork(after_in_child=_forget_connections)


def connect(arguments: dict, now: bool = False) -> Any:
    """The connection of this process that was made with these arguments, or will be at its first
    use unless ``now``."""
    from . import Volume

    key = tuple(sorted((name, str(value)) for name, value in arguments.items()))
    with _lock:
        volume = _connections.get(key)
        if volume is None:
            folder = arguments["folder"]
            others = {name: value for name, value in arguments.items() if name != "folder"}
            # It connects at its first use: what unpickles it may not expect an error.
            volume = _connections[key] = Volume(folder, connect=now, **others)
        elif now:
            _ = volume.requests_sent
        return volume


def attach(volume: Any, id: int, path: str, write: bool) -> Any:
    """A file as it was attached, at its first use: the same one, whatever its path is then."""
    return connect(volume.__reduce__()[1][0])._attached(id, path, write)


def view(file: Any, text: Optional[str], fork: Optional[str], checkpoint: Optional[int]) -> Any:
    """A view as it was opened."""
    return file._view(text, fork, checkpoint)
