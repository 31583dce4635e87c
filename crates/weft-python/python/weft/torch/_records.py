"""Records of one large file, for ``DataLoader``."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence, Union

import numpy
import torch

from .. import File, Path, Pattern, View, Volume
from ._memory import memory_of, volume_or_default
from ._safetensors import itemsize


class Records(torch.utils.data.Dataset):
    """The records of a file: tensors of one shape, one after the other.

    >>> records = weft.torch.Records("/images", (3, 224, 224), torch.uint8)
    >>> loader = torch.utils.data.DataLoader(records, batch_size=256, shuffle=True, num_workers=4)

    A batch is one list request, wherever its records lie, of one message to each server. Workers
    connect by themselves. ``base`` is the byte where the first record begins, ``count`` how many
    there are (None: to the end of the file); ``transform`` is called with each record.

    Instead of ``shape``, ``bounds`` may say where records of any length begin and end: record i has
    the bytes from ``bounds[i]`` to ``bounds[i + 1]`` after ``base``. It is a sequence of integers, or
    the path of a file of the volume that holds them with 64 bits each, in little-endian order.

    A list of indices gives one tensor of all their records, so that
    ``DataLoader(records, sampler=BatchSampler(RandomSampler(records), 256, False), batch_size=None)``
    collates nothing.
    """

    def __init__(
        self,
        path: Path,
        shape: Optional[Union[int, Sequence[int]]] = None,
        dtype: torch.dtype = torch.uint8,
        *,
        bounds: Optional[Any] = None,
        base: int = 0,
        count: Optional[int] = None,
        transform: Optional[Callable[[torch.Tensor], Any]] = None,
        volume: Optional[Volume] = None,
    ) -> None:
        if (shape is None) == (bounds is None):
            raise ValueError("records have either a shape or bounds")
        if bounds is not None and count is not None:
            raise ValueError("bounds say how many records there are")
        volume = volume_or_default(volume)
        self.dtype = dtype
        self.transform = transform
        self._base = base
        self._file: File = volume.attach(path)
        self._view: View = self._file.view()
        self._size = itemsize(dtype)
        if bounds is not None:
            self._bounds = _bounds(volume, bounds, self._size, self._view.size - base)
            self._count = len(self._bounds) - 1
            return
        self._bounds = None
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self._length = torch.Size(self.shape).numel() * self._size
        if self._length == 0:
            raise ValueError(f"records of shape {self.shape} have no bytes")
        there = max(self._view.size - base, 0) // self._length
        self._count = there if count is None else count
        if self._count > there:
            raise ValueError(f"the file has {there} records, not {count}")

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            index = range(*index.indices(self._count))
        if isinstance(index, (range, list, tuple, numpy.ndarray, torch.Tensor)) and (
            not isinstance(index, torch.Tensor) or index.ndim
        ):
            records = self._read([self._checked(i) for i in index])
            if self.transform is not None:
                return [self.transform(record) for record in records]
            return records if self._bounds is None else list(records)
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """The records of a batch: what ``DataLoader`` calls."""
        records = self._read([self._checked(index) for index in indices])
        if self.transform is None:
            return list(records)
        return [self.transform(record) for record in records]

    def _checked(self, index: Any) -> int:
        number = int(index)
        if not -self._count <= number < self._count:
            raise IndexError(f"record {number} of {self._count}")
        return number % self._count

    def _read(self, indices: list[int]) -> Any:
        if self._bounds is None:
            starts = numpy.asarray(indices, numpy.int64) * self._length
            lengths = numpy.full(len(indices), self._length, numpy.uint64)
            records = torch.empty((len(indices), *self.shape), dtype=self.dtype)
            self._fill(records, starts, lengths)
            return records
        chosen = numpy.asarray(indices, numpy.int64)
        starts = self._bounds[chosen]
        lengths = self._bounds[chosen + 1] - starts
        packed = torch.empty(int(lengths.sum()) // self._size, dtype=self.dtype)
        some = lengths > 0
        self._fill(packed, starts[some], lengths[some].astype(numpy.uint64))
        return packed.split([int(length) // self._size for length in lengths])

    def _fill(self, target: torch.Tensor, starts: numpy.ndarray, lengths: numpy.ndarray) -> None:
        if not target.numel():
            return
        memory, _ = memory_of(target)
        pattern = Pattern.runs_of(numpy.ascontiguousarray(starts), lengths)
        self._view.read_request(memory, pattern, self._base)


def _bounds(volume: Volume, bounds: Any, itemsize: int, size: int) -> numpy.ndarray:
    if isinstance(bounds, (str, bytes)) or hasattr(bounds, "__fspath__"):
        known = numpy.frombuffer(volume.read(bounds), "<i8").astype(numpy.int64)
    else:
        known = numpy.asarray(bounds, numpy.int64)
    if known.ndim != 1 or len(known) < 1:
        raise ValueError("bounds are a sequence of at least one integer")
    lengths = numpy.diff(known)
    if known[0] < 0 or (lengths < 0).any() or known[-1] > size:
        raise ValueError("bounds do not ascend, or leave the file")
    if (lengths % itemsize).any():
        raise ValueError(f"a record has no whole number of elements of {itemsize} bytes")
    return known
