"""The memory of tensors, and its way to and from a file."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from typing import Any, Callable, Optional, Sequence

import torch

from .. import Operation, Pattern, View, Volume
from .._pickle import connect
from ..array import _nested

# Pieces that are smaller share a list request, of so many bytes and pieces at most.
_SMALL = 1 << 20
_LIST_BYTES = 16 << 20
_LIST_PIECES = 1024
# What is in flight at the same time.
_WINDOW_BYTES = 256 << 20


def volume_or_default(volume: Optional[Volume]) -> Volume:
    """The volume, or the one that the environment names: one connection for all that name none."""
    if volume is not None:
        return volume
    folder = os.environ.get("WEFT_VOLUME")
    if folder is not None:
        return connect({"folder": folder})
    named = {"address": os.environ.get("WEFT_ADDRESS"), "key_file": os.environ.get("WEFT_KEY_FILE")}
    return connect({"folder": None, **named})


def memory_of(tensor: torch.Tensor) -> tuple[Any, Optional[Pattern]]:
    """The bytes of a tensor, and where in them its elements lie in the order of rows (None: one
    after the other). The tensor must outlive the buffer."""
    size = tensor.element_size()
    strides = [stride * size for stride in tensor.stride()]
    last = sum((count - 1) * stride for count, stride in zip(tensor.shape, strides))
    memory = (ctypes.c_char * (last + size)).from_address(tensor.data_ptr())
    if tensor.is_contiguous():
        return memory, None
    return memory, _nested(size, list(zip(tensor.shape, strides)))


def box(
    shape: Sequence[int], offsets: Sequence[int], sizes: Sequence[int], itemsize: int
) -> tuple[int, Optional[Pattern]]:
    """Where a box of an array lies that is stored row by row: its first byte, and its pattern
    (None: one byte after the other)."""
    start, stride, dimensions = 0, itemsize, []
    contiguous, is_one_piece = itemsize, True
    for extent, offset, size in zip(reversed(shape), reversed(offsets), reversed(sizes)):
        if offset < 0 or size < 0 or offset + size > extent:
            raise ValueError(f"a box at {tuple(offsets)} of {tuple(sizes)} leaves {tuple(shape)}")
        start += offset * stride
        dimensions.append((size, stride))
        is_one_piece = is_one_piece and (size == 1 or stride == contiguous)
        contiguous *= size
        stride *= extent
    return start, None if is_one_piece else _nested(itemsize, dimensions[::-1])


class _Transfer:
    """Tensors on their way: large ones in operations of their own, small ones in lists."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._posted: deque[tuple[Operation, int, Any, Optional[Callable[[], None]]]] = deque()
        self._posted_bytes = 0
        self._small: list[tuple[int, Any]] = []
        self._small_tensors: list[tuple[torch.Tensor, Optional[Callable[[], None]]]] = []
        self._small_bytes = 0

    def _add(
        self,
        tensor: torch.Tensor,
        begin: int,
        pattern: Optional[Pattern],
        then: Optional[Callable[[], None]] = None,
    ) -> None:
        length = tensor.numel() * tensor.element_size()
        memory, in_memory = memory_of(tensor)
        if in_memory is None and pattern is None and length < _SMALL:
            self._small.append((begin, memory))
            self._small_tensors.append((tensor, then))
            self._small_bytes += length
            if self._small_bytes >= _LIST_BYTES or len(self._small) >= _LIST_PIECES:
                self._end_small()
            return
        operation = self._post(memory, pattern or Pattern.bytes(length), begin, in_memory)
        # The tensor is kept here as long as its memory is in use.
        self._posted.append((operation, length, tensor, then))
        self._posted_bytes += length
        while self._posted_bytes > _WINDOW_BYTES and len(self._posted) > 1:
            self._end_first()

    def wait(self) -> None:
        """Waits until all have arrived."""
        self._end_small()
        while self._posted:
            self._end_first()

    def _end_first(self) -> None:
        operation, length, _, then = self._posted.popleft()
        self._posted_bytes -= length
        operation.wait()
        if then is not None:
            then()

    def _end_small(self) -> None:
        pieces, tensors = self._small, self._small_tensors
        self._small, self._small_tensors, self._small_bytes = [], [], 0
        if pieces:
            self._move_list(pieces)
        for _, then in tensors:
            if then is not None:
                then()

    def _post(self, memory: Any, pattern: Pattern, begin: int, of: Optional[Pattern]) -> Operation:
        raise NotImplementedError

    def _move_list(self, pieces: list[tuple[int, Any]]) -> None:
        raise NotImplementedError


class Writing(_Transfer):
    """Tensors that are being written."""

    def add(self, tensor: torch.Tensor, begin: int, pattern: Optional[Pattern] = None) -> None:
        """Begins to write a tensor from a byte on: its bytes one after the other, or as a pattern
        says. It must not change before :meth:`wait` returns."""
        if not tensor.numel():
            return
        tensor = tensor.detach()
        if not _is_plain(tensor):
            tensor = tensor.cpu().resolve_conj().resolve_neg().contiguous()
        self._add(tensor, begin, pattern)

    def _post(self, memory: Any, pattern: Pattern, begin: int, of: Optional[Pattern]) -> Operation:
        return self._view.post_write(memory, pattern, begin, memory=of)

    def _move_list(self, pieces: list[tuple[int, Any]]) -> None:
        self._view.write_list(pieces)


class Reading(_Transfer):
    """Tensors that are being read."""

    def add(
        self,
        tensor: torch.Tensor,
        dtype: torch.dtype,
        begin: int,
        pattern: Optional[Pattern] = None,
        then: Optional[Callable[[], None]] = None,
    ) -> None:
        """Begins to fill a tensor with elements of a type, from a byte on. ``then`` is called when
        they are there."""
        tensor = tensor.detach()
        if _is_plain(tensor) and tensor.dtype == dtype:
            target, done = tensor, then
        else:
            # By way of memory that the processor can fill.
            target = torch.empty(tensor.shape, dtype=dtype)

            def done() -> None:
                tensor.copy_(target)
                if then is not None:
                    then()

        if target.numel():
            self._add(target, begin, pattern, done)
        elif done is not None:
            done()

    def _post(self, memory: Any, pattern: Pattern, begin: int, of: Optional[Pattern]) -> Operation:
        return self._view.post_read(memory, pattern, begin, memory=of)

    def _move_list(self, pieces: list[tuple[int, Any]]) -> None:
        self._view.read_list(pieces)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether each element lies, as it is, in memory of its own that the processor can use."""
    if tensor.device.type != "cpu" or tensor.is_conj() or tensor.is_neg():
        return False
    return all(stride or count < 2 for count, stride in zip(tensor.shape, tensor.stride()))
