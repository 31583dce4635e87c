"""Arrays of NumPy in files of a volume.

>>> import numpy, weft
>>> volume = weft.Volume()
>>> with volume.array("/field", (1000, 500), "f8") as field:
...     field[:, 3] = numpy.arange(1000)             # one request to each server
...     float(field[10:20:2, ::-1][0, -4])
10.0

The bytes are those that NumPy has in memory, row by row (``order="C"``) or column by column
(``"F"``), without a header: other programs can read them. Shape and type are attributes of the
file, which ``weft stat`` shows.

A slice of any dimension, with steps, negative steps and ellipses, is one structured request whatever
the number of elements. Arrays of indices and masks are one list request. Reads fill memory in place,
also where elements do not lie side by side; writes take them from any array.
"""

from __future__ import annotations

import ast
import contextlib
import errno
import math
import operator
import os
from typing import Any, Iterator, Optional, Sequence, Union

import numpy

from . import File, Group, Operation, Path, Pattern, View, Volume

ATTRIBUTE = "user.weft.array"
DTYPE_ATTRIBUTE = "user.numpy.dtype"

_NAMES = {"u": "u", "i": "i", "f": "f"}


class Array:
    """An array in a file. Made by :meth:`weft.Volume.array` and :meth:`weft.Volume.open_array`."""

    def __init__(
        self, file: File, shape: Sequence[int], dtype: Any, order: str, base: int = 0
    ) -> None:
        self.file = file
        self.base = base  # the byte of the file where it begins
        self.shape = tuple(operator.index(extent) for extent in shape)
        self.dtype = numpy.dtype(dtype)
        self.order = order
        self._opened: Optional[View] = None
        self._strides = _strides(self.shape, self.dtype.itemsize, order)

    @property
    def _view(self) -> View:
        """Opened at the first use: so an array can be unpickled without the volume."""
        if self._opened is None:
            self._opened = self.file.view()
        return self._opened

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<weft.Array {self.file.path!r} {self.shape} {self.dtype} order {self.order}>"

    def __getitem__(self, key: Any) -> Any:
        return self.read(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.write(key, value)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> numpy.ndarray:
        if copy is False:
            raise ValueError("an array in a file cannot be had without a copy")
        read = self.read()
        return read if dtype is None else read.astype(dtype, copy=False)

    def __enter__(self) -> "Array":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def read(
        self, key: Any = (), out: Optional[numpy.ndarray] = None, group: Optional[Group] = None
    ) -> Any:
        """Reads the elements that an index names, into ``out`` if it is given.

        With ``group`` it is a collective: each member reads its own elements, all together.
        An index of integers only gives a scalar.
        """
        selected = self._selected(key, group)
        target, packed = self._target(selected, out, group)
        memory = None if packed else selected.in_memory(target)
        if selected.count or group is not None:
            self._view.read_request(
                _as_bytes(target), selected.pattern, selected.offset, memory=memory, group=group
            )
        return self._result(selected, target, out)

    def write(
        self, key: Any, value: Any, group: Optional[Group] = None, *, synced: bool = False
    ) -> None:
        """Writes the elements that an index names, from anything that NumPy can spread over them.

        With ``group`` it is a collective. With ``synced`` the elements survive power loss on return.
        """
        selected = self._selected(key, group)
        source, memory = self._source(selected, value, group)
        if selected.count or group is not None:
            self._view.write_request(
                source,
                selected.pattern,
                selected.offset,
                memory=memory,
                group=group,
                synced=synced,
                last_wins=selected.repeats,
            )

    def post_read(
        self, key: Any, out: numpy.ndarray, group: Optional[Group] = None
    ) -> Operation:
        """Begins to read into ``out``, which must not be used until the operation has ended."""
        selected = self._selected(key, group)
        target, packed = self._target(selected, out, group)
        memory = None if packed else selected.in_memory(target)
        return self._view.post_read(
            _as_bytes(target), selected.pattern, selected.offset, memory=memory, group=group
        )

    def post_write(
        self, key: Any, value: Any, group: Optional[Group] = None, *, synced: bool = False
    ) -> Operation:
        """Begins to write; the value must not change until the operation has ended."""
        selected = self._selected(key, group)
        source, memory = self._source(selected, value, group)
        return self._view.post_write(
            source,
            selected.pattern,
            selected.offset,
            memory=memory,
            group=group,
            synced=synced,
            last_wins=selected.repeats,
        )

    def shape_of(self, key: Any) -> tuple[int, ...]:
        """The shape of what an index names. No message."""
        return _select(self, key).shape

    def sync(self) -> None:
        """Returns when all that was written survives power loss."""
        self.file.sync()

    def close(self) -> None:
        """Closes the file."""
        self.file.close()

    def _selected(self, key: Any, group: Optional[Group]) -> "_Selected":
        with _in_step(group):
            selected = _select(self, key)
            selected.offset += self.base
            return selected

    def _target(
        self, selected: "_Selected", out: Optional[numpy.ndarray], group: Optional[Group]
    ) -> tuple[numpy.ndarray, bool]:
        with _in_step(group):
            if out is None:
                out = numpy.empty(selected.shape, self.dtype, order="C")
            elif not isinstance(out, numpy.ndarray) or out.dtype != self.dtype:
                raise TypeError(f"out must be an array of {self.dtype}")
            elif out.shape != selected.shape:
                raise ValueError(f"out has shape {out.shape}, the index {selected.shape}")
            return out, selected.is_packed(out)

    def _source(
        self, selected: "_Selected", value: Any, group: Optional[Group]
    ) -> tuple[Any, Optional[Pattern]]:
        with _in_step(group):
            source = numpy.asarray(value, self.dtype)
            if source.shape != selected.shape:
                # As in NumPy, leading dimensions of one element do not count.
                while source.ndim > len(selected.shape) and source.shape[0] == 1:
                    source = source[0]
                # Elements that are spread over a dimension lie in memory once each.
                source = numpy.ascontiguousarray(numpy.broadcast_to(source, selected.shape))
            memory = None if selected.is_packed(source) else selected.in_memory(source)
            return _as_bytes(source), memory

    def _result(
        self, selected: "_Selected", target: numpy.ndarray, out: Optional[numpy.ndarray]
    ) -> Any:
        return target[()] if selected.scalar and out is None else target

    def __reduce__(self) -> tuple:
        return Array, (self.file, self.shape, self.dtype, self.order, self.base)


@contextlib.contextmanager
def _in_step(group: Optional[Group]) -> Iterator[None]:
    """Counts a collective whose arguments are refused: this member and the others go on in step."""
    try:
        yield
    except BaseException:
        if group is not None:
            group.skip()
        raise


class _Selected:
    """The elements that an index names: where they lie in the file, and in memory."""

    def __init__(self, shape: tuple, itemsize: int) -> None:
        self.shape = shape
        self.count = math.prod(shape)
        self.itemsize = itemsize
        self.scalar = False
        self.repeats = False
        self.offset = 0
        self.pattern = Pattern.bytes(0)
        # (axis in memory, count, file stride) of each dimension, in the order of the file, and the
        # axes that run against it.
        self.axes: list[tuple[int, int]] = []
        self.backwards: list[tuple[int, int]] = []
        self.listed = False

    def is_packed(self, array: numpy.ndarray) -> bool:
        """Whether the array's bytes lie in memory one after the other as the pattern names them."""
        if not array.flags.c_contiguous:
            return False
        if self.listed:
            return True
        varying = [axis for axis, count in self.axes if count > 1]
        return not self.backwards and varying == sorted(varying)

    def in_memory(self, array: numpy.ndarray) -> Pattern:
        """Where the elements lie in the memory of an array, from its first element."""
        if self.listed:
            dimensions = [(count, stride) for count, stride in zip(array.shape, array.strides)]
            return _nested(self.itemsize, dimensions)
        start = sum((count - 1) * array.strides[axis] for axis, count in self.backwards)
        flipped = {axis for axis, _ in self.backwards}
        dimensions = [
            (count, -array.strides[axis] if axis in flipped else array.strides[axis])
            for axis, count in self.axes
        ]
        pattern = _nested(self.itemsize, dimensions)
        return pattern if start == 0 else Pattern.sequence([(start, pattern)])


def _select(array: Array, key: Any) -> _Selected:
    keys = key if isinstance(key, tuple) else (key,)
    if any(_is_advanced(part) for part in keys):
        return _select_elements(array, keys)
    if sum(part is Ellipsis for part in keys) > 1:
        raise IndexError("an index can have one ellipsis ('...') only")
    used = sum(part is not None and part is not Ellipsis for part in keys)
    if used > array.ndim:
        raise IndexError(f"{used} indices for an array of {array.ndim} dimensions")
    whole = [slice(None)] * (array.ndim - used)
    if any(part is Ellipsis for part in keys):
        at = next(i for i, part in enumerate(keys) if part is Ellipsis)
        keys = (*keys[:at], *whole, *keys[at + 1 :])
    else:
        keys = (*keys, *whole)
    shape: list[int] = []
    offset, dimension = 0, 0
    axes: list[tuple[int, int, int]] = []
    for part in keys:
        if part is None:
            shape.append(1)
            continue
        extent, stride = array.shape[dimension], array._strides[dimension]
        dimension += 1
        if isinstance(part, slice):
            start, stop, step = part.indices(extent)
            count = len(range(start, stop, step))
            offset += start * stride if count else 0
            axes.append((len(shape), count, step * stride))
            shape.append(count)
        else:
            index = _index(part)
            if not -extent <= index < extent:
                raise IndexError(f"index {index} is out of bounds: the dimension has {extent}")
            offset += (index % extent) * stride
    selected = _Selected(tuple(shape), array.dtype.itemsize)
    selected.scalar = not shape
    if selected.count:
        # The file's own order: so neighbours are read together whatever the order in memory.
        axes.sort(key=lambda axis: -abs(axis[2]))
        for axis, count, stride in axes:
            if stride < 0:
                offset += (count - 1) * stride
                selected.backwards.append((axis, count))
            selected.axes.append((axis, count))
        dimensions = [(count, abs(stride)) for _, count, stride in axes]
        selected.pattern = _nested(selected.itemsize, dimensions)
        selected.offset = offset
    return selected


def _select_elements(array: Array, key: tuple) -> _Selected:
    """Arrays of indices and masks: NumPy itself says which elements they name."""
    offsets = numpy.zeros((), numpy.int64)
    shape = array.shape
    for dimension, extent in enumerate(shape):
        along = numpy.arange(extent, dtype=numpy.int64) * array._strides[dimension]
        along = along.reshape([-1 if i == dimension else 1 for i in range(len(shape))])
        offsets = offsets + numpy.broadcast_to(along, shape)[key]
    selected = _Selected(numpy.shape(offsets), array.dtype.itemsize)
    selected.listed = True
    flat = numpy.ravel(offsets)
    if flat.size:
        breaks = numpy.flatnonzero(numpy.diff(flat) != selected.itemsize) + 1
        starts = numpy.concatenate(([0], breaks))
        lengths = numpy.diff(numpy.concatenate((starts, [flat.size]))) * selected.itemsize
        starts = numpy.ascontiguousarray(flat[starts])
        selected.pattern = Pattern.runs_of(starts, lengths.astype(numpy.uint64))
        selected.repeats = bool(numpy.unique(flat).size < flat.size)
    return selected


def _is_advanced(part: Any) -> bool:
    if part is None or part is Ellipsis or isinstance(part, slice):
        return False
    if isinstance(part, (bool, numpy.bool_)):
        return True
    return isinstance(part, (list, numpy.ndarray)) and numpy.ndim(part) > 0


def _index(part: Any) -> int:
    try:
        return part.__index__()
    except AttributeError:
        what = "integers, slices, ellipses, None, and arrays of integers or booleans"
        raise IndexError(f"{part!r} is no index: use {what}") from None


def _nested(itemsize: int, dimensions: Sequence[tuple[int, int]]) -> Pattern:
    """A pattern of (count, stride) from the outermost dimension to the innermost."""
    contiguous, pattern = itemsize, None
    for count, stride in reversed(dimensions):
        if count == 1:
            continue
        if pattern is None:
            if stride == contiguous:
                contiguous *= count
                continue
            pattern = Pattern.bytes(contiguous)
        pattern = pattern.repeat(stride, count)
    return Pattern.bytes(contiguous) if pattern is None else pattern


def _strides(shape: Sequence[int], itemsize: int, order: str) -> tuple[int, ...]:
    strides, stride = [], itemsize
    for extent in shape if order == "F" else reversed(shape):
        strides.append(stride)
        stride *= extent
    return tuple(strides if order == "F" else reversed(strides))


def _as_bytes(array: numpy.ndarray) -> numpy.ndarray:
    """The same memory, of a type that every consumer of buffers knows."""
    return array if array.dtype.kind in "biufcSV" else array.view(f"V{array.dtype.itemsize}")


def create(
    volume: Volume,
    path: Path,
    shape: Union[int, Sequence[int]],
    dtype: Any,
    order: str,
    chunks: Optional[Union[int, Sequence[int]]],
    cells: Optional[int],
    exclusive: bool,
    overwrite: bool,
) -> Array:
    """See :meth:`weft.Volume.array`.

    ``chunks`` is the part of the array that lies on a server before the next one's begins: rows of
    the slowest dimension, or a shape that is whole in all faster ones.
    """
    extents = tuple(operator.index(e) for e in ((shape,) if isinstance(shape, int) else shape))
    if any(extent < 0 for extent in extents):
        raise ValueError("dimensions cannot be negative")
    kind = numpy.dtype(dtype)
    if kind.hasobject:
        raise TypeError("objects of Python have no bytes that a file could hold")
    if kind.itemsize == 0:
        raise TypeError(f"{kind} has no bytes")
    if order not in ("C", "F"):
        raise ValueError("order is 'C', row by row, or 'F', column by column")
    layout: dict[str, int] = {}
    if chunks is not None:
        layout["bsu"] = _chunk_bytes(extents, kind.itemsize, order, chunks)
    if cells is not None:
        layout["cells"] = cells
    file = volume.attach(
        path, write=True, create=True, exclusive=exclusive, layout=layout or None
    )
    try:
        array = Array(file, extents, kind, order)
        said = {DTYPE_ATTRIBUTE: _dtype_text(kind), ATTRIBUTE: _described(array)}
        if not file.created:
            known = {name: _attribute(volume, file.path, name) for name in said}
            if overwrite:
                file.truncate(0)
            elif known == said:
                return array
            elif file.size > 0:
                holds = known[ATTRIBUTE] or f"{file.size} bytes that are no array"
                reason = f"it holds {holds}; overwrite=True replaces that"
                raise FileExistsError(errno.EEXIST, reason, os.fsdecode(path))
        for name, text in said.items():
            volume.setxattr(file.path, name, text.encode())
        # Another process may do the same.
        file.extend(array.nbytes)
        return array
    except BaseException:
        file.close()
        raise


def open_array(volume: Volume, path: Path, write: bool) -> Array:
    """See :meth:`weft.Volume.open_array`."""
    file = volume.attach(path, write=write)
    try:
        text = _attribute(volume, file.path, ATTRIBUTE)
        if text is None:
            reason = f"it holds no array that it knows of: it has no attribute {ATTRIBUTE}"
            raise OSError(errno.EINVAL, reason, os.fsdecode(path))
        element, extents, *order = text.split()
        shape = tuple(int(extent) for extent in extents.split("x"))
        if shape == (1,) and order == ["scalar"]:
            shape = ()
        name = _attribute(volume, file.path, DTYPE_ATTRIBUTE)
        if name is None:
            dtype = _dtype_of(element)
        else:
            dtype = numpy.lib.format.descr_to_dtype(ast.literal_eval(name))
        return Array(file, shape, dtype, "F" if order == ["column"] else "C")
    except BaseException:
        file.close()
        raise


def _attribute(volume: Volume, path: str, name: str) -> Optional[str]:
    try:
        return volume.getxattr(path, name).decode()
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        return None


def _dtype_text(dtype: numpy.dtype) -> str:
    return repr(numpy.lib.format.dtype_to_descr(dtype))


def _described(array: Array) -> str:
    """The array as the attribute has it: the element's type, the shape, and the order."""
    name = _NAMES.get(array.dtype.kind)
    size = array.dtype.itemsize
    plain = name is not None and size in (1, 2, 4, 8) and array.dtype.isnative
    element = f"{name}{size * 8}" if plain else f"bytes{size}"
    shape = "x".join(str(extent) for extent in array.shape) or "1"
    return f"{element} {shape}" + (" column" if array.order == "F" else "")


def _dtype_of(element: str) -> numpy.dtype:
    if element.startswith("bytes"):
        return numpy.dtype(f"V{int(element[5:])}")
    return numpy.dtype(f"{element[0]}{int(element[1:]) // 8}")


def _chunk_bytes(
    shape: tuple[int, ...], itemsize: int, order: str, chunks: Union[int, Sequence[int]]
) -> int:
    slowest_first = shape if order == "C" else shape[::-1]
    if isinstance(chunks, int):
        parts = (chunks, *slowest_first[1:])
    else:
        parts = tuple(chunks) if order == "C" else tuple(chunks)[::-1]
    if len(parts) != len(shape) or not shape or any(part < 1 for part in parts):
        raise ValueError(f"chunks {chunks} do not fit an array of shape {shape}")
    # A chunk may be larger than the array.
    parts = tuple(min(part, max(extent, 1)) for part, extent in zip(parts, slowest_first))
    begun = False
    for part, extent in zip(reversed(parts), reversed(slowest_first)):
        if begun and part != 1:
            raise ValueError(
                f"chunks {chunks} are not consecutive in an array of shape {shape}: a chunk has "
                "whole rows, as many of them as you like"
            )
        begun = begun or part < extent
    return math.prod(parts) * itemsize
