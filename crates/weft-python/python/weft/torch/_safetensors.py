"""Files of safetensors: a header of JSON, then the bytes of each tensor row by row.

Eight bytes say how long the header is, in little-endian order. For each tensor the header has its
type, its shape, and where its bytes begin and end after the header.
"""

from __future__ import annotations

import errno
import json
import math
import os
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, Mapping, Optional, Union

import numpy
import torch

from .. import File, Path, View, Volume
from ..array import Array
from ._memory import Reading, Writing, memory_of, volume_or_default
from ._saving import Saving

# A header is read with one request if it is not longer than this.
_FIRST_READ = 64 << 10
# The bound of the format itself.
HEADER_MAX = 100 << 20
# In the free-form part: the names of entries that are no tensors, in JSON.
OBJECTS = "weft.objects"
# Tensors begin at a multiple of this: a page.
_ALIGNMENT = 4096

_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}
# Those that this version of PyTorch has.
_DTYPES = {
    name: getattr(torch, attribute)
    for attribute, name in _NAMES.items()
    if hasattr(torch, attribute)
}
_NAME_OF = {dtype: name for name, dtype in _DTYPES.items()}


def itemsize(dtype: torch.dtype) -> int:
    """The bytes of an element."""
    return torch.empty((), dtype=dtype).element_size()


@dataclass(frozen=True)
class Entry:
    """A tensor in a file."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int  # from the start of the file
    end: int


def described(dtype: torch.dtype, shape: Iterable[int], begin: int, end: int) -> dict:
    """What a header says of a tensor; ``begin`` and ``end`` count from the end of the header."""
    shape = list(shape)
    name = _NAME_OF.get(dtype)
    if name is None:
        # A type that the format does not know: the bytes of each element.
        name, shape = "U8", [*shape, itemsize(dtype)]
    return {"dtype": name, "shape": shape, "data_offsets": [begin, end]}


def encode_header(header: Mapping[str, Any], length: Optional[int] = None) -> bytes:
    """The header, so long that tensors begin on a page, or of just this length."""
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    if length is None:
        length = header_length(len(text))
    if len(text) + 8 > length:
        raise ValueError(f"a header of {len(text)} bytes does not fit into {length}")
    return (length - 8).to_bytes(8, "little") + text.ljust(length - 8)


def header_length(text: int) -> int:
    """The bytes that a header takes whose text is at most so long."""
    if text > HEADER_MAX:
        raise ValueError(f"the header would have {text} bytes, more than {HEADER_MAX}")
    return -(-(text + 8) // _ALIGNMENT) * _ALIGNMENT


def read_header(
    view: View, path: Path
) -> tuple[dict[str, str], dict[str, Entry], dict[str, Entry]]:
    """The free-form part of a file's header, its tensors, and what a checkpoint holds besides.

    Whatever is in the file, what is returned lies within it.
    """
    size = view.size
    first = bytearray(min(size, _FIRST_READ))
    view.read_into(first)
    length = int.from_bytes(first[:8], "little")
    if size < 8 or length == 0:
        reason = "no header is in it: it is no file of safetensors, or not complete"
        raise _damaged(path, reason)
    if length > min(HEADER_MAX, size - 8):
        raise _damaged(path, f"it is no file of safetensors: its header would have {length} bytes")
    text = first[8 : 8 + length]
    if len(text) < length:
        rest = bytearray(length - len(text))
        view.read_into(rest, 8 + len(text))
        text += rest
    try:
        header = json.loads(text.decode())
        free = dict(header.pop("__metadata__", {}))
        tensors = {name: _entry(said, 8 + length, size) for name, said in header.items()}
        objects = {name: tensors.pop(name) for name in json.loads(free.pop(OBJECTS, "[]"))}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _damaged(path, f"its header is damaged: {error}") from None
    return free, tensors, objects


def _entry(said: dict, start: int, size: int) -> Entry:
    dtype = _DTYPES.get(said["dtype"])
    if dtype is None:
        raise ValueError(f"this version of PyTorch has no type {said['dtype']}")
    shape = tuple(said["shape"])
    begin, end = said["data_offsets"]
    if not all(isinstance(extent, int) and extent >= 0 for extent in (*shape, begin, end)):
        raise ValueError("an extent is no natural number")
    if end - begin != math.prod(shape) * itemsize(dtype) or start + end > size:
        raise ValueError(f"bytes {begin} to {end} do not fit shape {shape}, or the file")
    return Entry(dtype, shape, start + begin, start + end)


def _damaged(path: Path, reason: str) -> OSError:
    return OSError(errno.EINVAL, reason, os.fsdecode(path))


class TensorFile:
    """The tensors of a file. Made by :func:`open_file`; a context manager."""

    def __init__(self, file: File, view: View, device: Union[str, torch.device] = "cpu") -> None:
        self._file = file
        self._view = view
        self._device = torch.device(device)
        self._free, self._entries, _ = read_header(view, file.path)

    def keys(self) -> list[str]:
        """The names of all tensors."""
        return list(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def metadata(self) -> dict[str, str]:
        """The free-form part of the header."""
        return dict(self._free)

    def entry(self, name: str) -> Entry:
        """The type, shape and place of a tensor. KeyError if there is none of this name."""
        try:
            return self._entries[name]
        except KeyError:
            raise KeyError(f"{self._file.path} has no tensor {name!r}") from None

    def get_tensor(self, name: str) -> torch.Tensor:
        """A whole tensor."""
        return self.get_tensors([name])[name]

    def get_tensors(self, names: Optional[Iterable[str]] = None) -> dict[str, torch.Tensor]:
        """Several tensors, or all. Only their bytes are read; small ones share a request."""
        found: dict[str, torch.Tensor] = {}
        reading = Reading(self._view)
        _check_names(names)
        for name in self._entries if names is None else names:
            entry = self.entry(name)
            found[name] = torch.empty(entry.shape, dtype=entry.dtype)
            reading.add(found[name], entry.dtype, entry.begin)
        reading.wait()
        if self._device.type != "cpu":
            found = {name: tensor.to(self._device) for name, tensor in found.items()}
        return found

    def get_slice(self, name: str) -> "TensorSlice":
        """A tensor that is read where it is indexed: ``file.get_slice("w")[10:20, ::2]``."""
        return TensorSlice(self._file, self.entry(name), self._device)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> "TensorFile":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class TensorSlice:
    """A tensor in a file, of which an index reads a part: one request to each server."""

    def __init__(self, file: File, entry: Entry, device: torch.device) -> None:
        self._entry = entry
        self._device = device
        element = numpy.dtype(f"V{itemsize(entry.dtype)}")
        self._array = Array(file, entry.shape, element, "C", base=entry.begin)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor."""
        return self._entry.shape

    @property
    def dtype(self) -> torch.dtype:
        """The type of its elements."""
        return self._entry.dtype

    def get_shape(self) -> list[int]:
        """As :attr:`shape`, by the name that the package ``safetensors`` has for it."""
        return list(self.shape)

    def __getitem__(self, key: Any) -> torch.Tensor:
        shape = self._array.shape_of(key)
        tensor = torch.empty(shape, dtype=self.dtype)
        if tensor.numel():
            memory, _ = memory_of(tensor)
            self._array.read(key, out=numpy.ndarray(shape, self._array.dtype, buffer=memory))
        return tensor if self._device.type == "cpu" else tensor.to(self._device)


def open_file(
    path: Path,
    *,
    volume: Optional[Volume] = None,
    device: Union[str, torch.device] = "cpu",
) -> TensorFile:
    """Opens a file of safetensors. Tensors are read when they are asked for."""
    file = volume_or_default(volume).attach(path)
    try:
        return TensorFile(file, file.view(), device)
    except BaseException:
        file.close()
        raise


def load_file(
    path: Path,
    names: Optional[Iterable[str]] = None,
    *,
    volume: Optional[Volume] = None,
    device: Union[str, torch.device] = "cpu",
) -> dict[str, torch.Tensor]:
    """The tensors of a file of safetensors: all, or those of these names."""
    _check_names(names)
    with open_file(path, volume=volume, device=device) as tensors:
        return tensors.get_tensors(names)


def _check_names(names: Optional[Iterable[str]]) -> None:
    if isinstance(names, str):
        raise TypeError(f"names is a list of names, as [{names!r}]")


def save_file(
    tensors: Mapping[str, torch.Tensor],
    path: Path,
    metadata: Optional[Mapping[str, str]] = None,
    *,
    volume: Optional[Volume] = None,
    sync: bool = True,
) -> None:
    """Writes tensors into a file of safetensors, in place of one that is there.

    A reader sees the old file or the new one, whole. With ``sync`` it survives power loss on return.
    """
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is no tensor: {tensor!r}")
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    # Large elements first: so each tensor begins at a multiple of its elements' size.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    end = 0
    for name in names:
        tensor = tensors[name]
        length = tensor.numel() * tensor.element_size()
        header[name] = described(tensor.dtype, tensor.shape, end, end + length)
        end += length
    head = encode_header(header)
    with Saving.begin(volume_or_default(volume), path) as saving:
        view = saving.file.view()
        writing = Writing(view)
        for name in names:
            writing.add(tensors[name], len(head) + header[name]["data_offsets"][0])
        writing.wait()
        view.write(head)
        saving.finish(sync)
