"""Storage for ``torch.distributed.checkpoint`` in one file of a volume.

The coordinator decides where each tensor lies, and sends the ranks the attached file. Each rank
writes its parts of the tensors as boxes of whole arrays: one structured request for each part, the
parts of all ranks at the same time, to all servers. The header comes last; then the file gets its
name. What is no tensor is stored behind them, at places that a shared pointer deals out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import json
import os
import pickle
from typing import Any, Optional, Sequence, Union

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from .. import File, Path, Volume
from ._memory import Reading, Writing, box, volume_or_default
from ._safetensors import (
    OBJECTS,
    Entry,
    described,
    encode_header,
    header_length,
    itemsize,
    read_header,
)
from ._saving import Saving

# The tensor of bytes that holds what PyTorch knows of a checkpoint.
_METADATA = "weft.metadata"
# What a header says of an object besides its name, at most.
_OBJECT_HEADER = 128
_POINTER = "objects"


@dataclasses.dataclass
class _Places:
    """What a rank has to know to write its part."""

    file: bytes  # the attached file, handed over
    temporary: Optional[str]  # its name until it is complete, if that is another one
    begins: dict[str, int]  # of each tensor, from the start of the file


def _path_of(checkpoint_id: Union[str, os.PathLike]) -> str:
    path = os.fsdecode(checkpoint_id)
    return path[len("weft://") :] if path.startswith("weft:///") else path


class CheckpointWriter(StorageWriter):
    """Saves a checkpoint into one file.

    The file gets the name ``path`` when it is complete: then it replaces one that is there. With
    ``checkpoint`` the bytes of the file at ``path`` are written anew instead, and kept as a
    checkpoint of Weft of that name when they are complete: so one file holds the states of a whole
    run, and each stays readable while the next is saved. Without ``overwrite``, a checkpoint or file
    of that name is a FileExistsError. ``layout`` is for a new file, as for
    :meth:`weft.Volume.attach`. With ``sync`` a saved checkpoint survives power loss.

    All ranks of the process group take part; there is one file, so each needs the coordinator.
    """

    def __init__(
        self,
        path: Path,
        *,
        checkpoint: Optional[str] = None,
        overwrite: bool = True,
        volume: Optional[Volume] = None,
        layout: Optional[Any] = None,
        sync: bool = True,
    ) -> None:
        super().__init__()
        self.path = _path_of(path)
        self.checkpoint = checkpoint
        self.overwrite = overwrite
        self.layout = layout
        self.sync = sync
        self._volume = volume
        # Of the coordinator, while it saves.
        self._saving: Union[Saving, _Renewing, None] = None
        self._header: dict[str, Any] = {}
        self._objects: list[str] = []
        self._header_length = 0
        self._end = 0

    @property
    def checkpoint_id(self) -> str:
        """The path of the file."""
        return self.path

    def reset(self, checkpoint_id: Union[str, os.PathLike, None] = None) -> None:
        """A new checkpoint begins, with another path if one is given."""
        self._abandon()
        if checkpoint_id is not None:
            self.path = _path_of(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **options: Any) -> None:
        """See ``StorageWriter``."""
        if options.get("use_collectives") is False:
            raise ValueError("all ranks write one file: a checkpoint needs use_collectives=True")

    def prepare_local_plan(self, plan: Any) -> Any:
        """See ``StorageWriter``."""
        return plan

    def prepare_global_plan(self, plans: Sequence[Any]) -> list[Any]:
        """Decides where each tensor lies, and creates the file."""
        if not all(getattr(plan, "usable", True) for plan in plans):
            raise ValueError("every checkpoint is a file of its own: turn enable_plan_caching off")
        self._abandon()
        self._lay_out(plans)
        volume = volume_or_default(self._volume)
        if self.checkpoint is None:
            if not self.overwrite and _exists(volume, self.path):
                raise FileExistsError(errno.EEXIST, "the file exists", self.path)
            self._saving = Saving.begin(volume, self.path, self.layout)
        else:
            name, replaced = self.checkpoint, _numbers(volume, self.path, self.checkpoint)
            if replaced and not self.overwrite:
                raise FileExistsError(errno.EEXIST, f"it has a checkpoint {name!r}", self.path)
            self._saving = _Renewing(volume, self.path, name, bool(replaced), self.layout)
        file = self._saving.file
        file.view().shared_pointer(_POINTER).seek(self._end)
        handed, temporary = file.hand_over(), self._saving.temporary
        begins = {
            name: self._header_length + said["data_offsets"][0]
            for name, said in self._header.items()
        }
        return [
            dataclasses.replace(
                plan, storage_data=_Places(handed, temporary, _of_plan(plan, begins))
            )
            for plan in plans
        ]

    def write_data(self, plan: Any, planner: Any) -> Future:
        """Writes what the plan gives this rank."""
        volume, places = volume_or_default(self._volume), plan.storage_data
        try:
            results = self._write(volume, places, plan, planner)
        except BaseException:
            # Then it becomes complete on no rank.
            if places.temporary is not None:
                with contextlib.suppress(FileNotFoundError):
                    volume.unlink(places.temporary)
            raise
        future: Future = Future()
        future.set_result(results)
        return future

    def _write(self, volume: Volume, places: _Places, plan: Any, planner: Any) -> list:
        results = []
        with volume.adopt(places.file) as file:
            view = file.view()
            objects = view.shared_pointer(_POINTER)
            writing = Writing(view)
            for item in plan.items:
                data = planner.resolve_data(item)
                if item.type == WriteItemType.BYTE_IO:
                    length = data.getbuffer().nbytes
                    begin = objects.take(length)
                    view.write(data.getbuffer(), begin)
                    results.append(WriteResult(item.index, length, (begin, length)))
                    continue
                of = item.tensor_data
                size = itemsize(of.properties.dtype)
                start, pattern = box(of.size, of.chunk.offsets, of.chunk.sizes, size)
                if tuple(data.shape) != tuple(of.chunk.sizes):
                    shapes = f"{tuple(data.shape)}, planned {tuple(of.chunk.sizes)}"
                    raise ValueError(f"a part of {item.index.fqn} has shape {shapes}")
                writing.add(data, places.begins[item.index.fqn] + start, pattern)
                results.append(WriteResult(item.index, data.numel() * size, None))
            writing.wait()
            if self.sync:
                file.sync()
        return results

    def finish(self, metadata: Any, results: Sequence[Sequence[Any]]) -> None:
        """Writes the header, and gives the file its name."""
        try:
            self._finish(self._saving, metadata, results)
        finally:
            self._abandon()

    def _finish(self, saving: Any, metadata: Any, results: Sequence[Sequence[Any]]) -> None:
        view = saving.file.view()
        objects = view.shared_pointer(_POINTER)
        for result in (result for of_rank in results for result in of_rank):
            if result.storage_data is not None:
                begin, length = result.storage_data
                self._add_object(result.index.fqn, begin, length)
        known = pickle.dumps(metadata)
        begin = objects.take(len(known))
        view.write(known, begin)
        self._add_object(_METADATA, begin, len(known))
        self._header["__metadata__"] = {OBJECTS: json.dumps(self._objects, ensure_ascii=False)}
        objects.remove()
        view.write(encode_header(self._header, self._header_length))
        saving.finish(self.sync)

    def _add_object(self, name: str, begin: int, length: int) -> None:
        self._objects.append(name)
        begin -= self._header_length
        self._header[name] = described(torch.uint8, (length,), begin, begin + length)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Union[str, os.PathLike]) -> bool:
        """Whether this may be the path of a file."""
        return os.fsdecode(checkpoint_id).startswith(("/", "weft:///"))

    def _lay_out(self, plans: Sequence[Any]) -> None:
        """Large elements first: so each tensor begins at a multiple of its elements' size."""
        tensors, objects = {}, set()
        for item in (item for plan in plans for item in plan.items):
            if item.type == WriteItemType.BYTE_IO:
                objects.add(item.index.fqn)
            else:
                of = item.tensor_data
                tensors[item.index.fqn] = (of.properties.dtype, tuple(of.size))
        if _METADATA in tensors or _METADATA in objects:
            raise ValueError(f"the name {_METADATA} is taken")
        self._header, end = {}, 0
        for name in sorted(tensors, key=lambda name: (-itemsize(tensors[name][0]), name)):
            dtype, shape = tensors[name]
            length = torch.Size(shape).numel() * itemsize(dtype)
            self._header[name] = described(dtype, shape, end, end + length)
            end += length
        self._objects = []
        text = len(encode_header(self._header)) + _OBJECT_HEADER
        # A name stands there twice, and escaped.
        text += sum(len(name.encode()) * 16 + _OBJECT_HEADER for name in (*objects, _METADATA))
        self._header_length = header_length(text)
        self._end = self._header_length + end

    def _abandon(self) -> None:
        if self._saving is not None:
            self._saving.abandon()
            self._saving = None

    def __getstate__(self) -> dict[str, Any]:
        if self._saving is not None:
            raise TypeError("a checkpoint that is being saved cannot be pickled")
        return self.__dict__


def _of_plan(plan: Any, begins: dict[str, int]) -> dict[str, int]:
    names = (item.index.fqn for item in plan.items)
    return {name: begins[name] for name in names if name in begins}


class _Renewing:
    """A file whose bytes are written anew, and kept as a checkpoint when they are complete."""

    temporary = None

    def __init__(
        self, volume: Volume, path: str, name: str, replaces: bool, layout: Optional[Any]
    ) -> None:
        self._volume = volume
        self._replaces = replaces
        self._name = name
        self.path = path
        self.file = volume.attach(path, write=True, create=True, layout=layout)
        try:
            # Without a header nobody takes it for complete.
            self.file.truncate(0)
        except BaseException:
            self.file.close()
            raise

    def finish(self, sync: bool) -> None:
        if sync:
            self.file.sync()
        if self._replaces:
            # The bytes of the new one are in the file.
            self._volume.remove_checkpoint(self.path, self._name)
        self._volume.make_checkpoint(self.path, self._name)
        if sync:
            self._volume.sync_names()
        self.file.close()

    def abandon(self) -> None:
        self.file.close()


def _numbers(volume: Volume, path: str, name: str) -> list[int]:
    """The number of a file's checkpoint of this name, if there is one."""
    try:
        return [known.number for known in volume.checkpoints(path) if known.name == name]
    except FileNotFoundError:
        return []


def _exists(volume: Volume, path: str) -> bool:
    try:
        volume.stat(path)
    except FileNotFoundError:
        return False
    return True


class CheckpointReader(StorageReader):
    """Loads from a file what a rank needs of a checkpoint, and no other bytes.

    ``path`` is a file that :class:`CheckpointWriter` saved, or any file of safetensors;
    ``checkpoint`` the name of a checkpoint of that file.
    """

    def __init__(
        self, path: Path, *, checkpoint: Optional[str] = None, volume: Optional[Volume] = None
    ) -> None:
        super().__init__()
        self.path = _path_of(path)
        self.checkpoint = checkpoint
        self._volume = volume
        self._entries: dict[str, Entry] = {}

    @property
    def checkpoint_id(self) -> str:
        """The path of the file."""
        return self.path

    def reset(self, checkpoint_id: Union[str, os.PathLike, None] = None) -> None:
        """Another load begins, of another path if one is given."""
        self._entries = {}
        if checkpoint_id is not None:
            self.path = _path_of(checkpoint_id)

    def read_metadata(self, *args: Any, **options: Any) -> Any:
        """What PyTorch knows of the checkpoint, or what the header of safetensors says."""
        with self._attach() as file:
            view = self._view(file)
            _, tensors, objects = read_header(view, self.path)
            self._entries = {**tensors, **objects}
            entry = self._entries.pop(_METADATA, None)
            if entry is None:
                return Metadata({name: _known(of) for name, of in self._entries.items()})
            data = bytearray(entry.end - entry.begin)
            view.read_into(data, entry.begin)
            metadata = pickle.loads(data)
            for name, of in metadata.state_dict_metadata.items():
                if isinstance(of, TensorStorageMetadata):
                    # Types that safetensors does not know are bytes there.
                    entry = self._entries[name]
                    dtype, shape = of.properties.dtype, tuple(of.size)
                    self._entries[name] = dataclasses.replace(entry, dtype=dtype, shape=shape)
            return metadata

    def set_up_storage_reader(
        self, metadata: Any, is_coordinator: bool, *args: Any, **options: Any
    ) -> None:
        """See ``StorageReader``."""
        if not self._entries:
            self.read_metadata()

    def prepare_local_plan(self, plan: Any) -> Any:
        """See ``StorageReader``."""
        return plan

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        """See ``StorageReader``."""
        return plans

    def read_data(self, plan: Any, planner: Any) -> Future:
        """Reads what the plan names, into the memory of the tensors where that is possible."""
        with self._attach() as file:
            view = self._view(file)
            reading = Reading(view)
            for item in plan.items:
                entry = self._entries[item.storage_index.fqn]
                if item.type == LoadItemType.BYTE_IO:
                    data = bytearray(entry.end - entry.begin)
                    view.read_into(data, entry.begin)
                    planner.load_bytes(item, io.BytesIO(data))
                else:
                    self._read_box(item, entry, planner, reading)
            reading.wait()
        future: Future = Future()
        future.set_result(None)
        return future

    def _read_box(self, item: Any, entry: Entry, planner: Any, reading: Reading) -> None:
        # Where the part that was saved lies in the tensor, and the bytes that are asked for in it.
        part = item.storage_index.offset or (0,) * len(entry.shape)
        offsets = [outer + inner for outer, inner in zip(part, item.storage_offsets)]
        target = planner.resolve_tensor(item).detach()
        if tuple(target.shape) != tuple(item.lengths):
            shapes = f"{tuple(target.shape)}, to be filled from {tuple(item.lengths)}"
            raise ValueError(f"a part of {item.storage_index.fqn} has shape {shapes}")
        start, pattern = box(entry.shape, offsets, item.lengths, itemsize(entry.dtype))

        def committed() -> None:
            planner.commit_tensor(item, target)

        reading.add(target, entry.dtype, entry.begin + start, pattern, committed)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Union[str, os.PathLike]) -> bool:
        """Whether this may be the path of a file."""
        return CheckpointWriter.validate_checkpoint_id(checkpoint_id)

    def _attach(self) -> File:
        return volume_or_default(self._volume).attach(self.path)

    def _view(self, file: File) -> Any:
        if self.checkpoint is None:
            return file.view()
        numbers = _numbers(volume_or_default(self._volume), self.path, self.checkpoint)
        if not numbers:
            reason = f"it has no checkpoint {self.checkpoint!r}"
            raise FileNotFoundError(errno.ENOENT, reason, self.path)
        return file.view().of_checkpoint(numbers[0])


def _known(entry: Entry) -> Any:
    size = torch.Size(entry.shape)
    whole = ChunkStorageMetadata(torch.Size([0] * len(size)), size)
    return TensorStorageMetadata(TensorProperties(dtype=entry.dtype), size, [whole])
