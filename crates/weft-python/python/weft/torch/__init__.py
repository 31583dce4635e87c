"""Checkpoints, tensors and records of PyTorch in a volume.

>>> import torch, weft.torch
>>> import torch.distributed.checkpoint as dcp
>>> dcp.save(state, storage_writer=weft.torch.CheckpointWriter("/run/step-100"))
>>> dcp.load(state, storage_reader=weft.torch.CheckpointReader("/run/step-100"))

:class:`CheckpointWriter` and :class:`CheckpointReader` are storage for
``torch.distributed.checkpoint``. All ranks write one file, each tensor as one array in it, and
reading takes the part that a rank needs, however the tensors were divided when they were saved. The
file is one of safetensors: :func:`open_file`, :func:`load_file` and :func:`save_file` read and write
such files as the ``safetensors`` package does, by ranges. :class:`Records` is a ``Dataset`` of the
records in one large file.

Without ``volume=`` a function uses the volume of the environment (see :class:`weft.Volume`).
"""

from ._checkpoint import CheckpointReader, CheckpointWriter
from ._records import Records
from ._safetensors import TensorFile, load_file, open_file, save_file

__all__ = [
    "CheckpointReader",
    "CheckpointWriter",
    "Records",
    "TensorFile",
    "load_file",
    "open_file",
    "save_file",
]
