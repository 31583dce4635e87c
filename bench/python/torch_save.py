#!/usr/bin/env python3
"""Saves a checkpoint of PyTorch from several processes: into the volume by ``weft.torch``, and by
PyTorch's own writer into a folder of the mount and one of the local file system, in turn.

usage: torch_save.py MOUNT FOLDER [--ranks 4] [--mib 1024] [--runs 5]

MOUNT is where the volume of WEFT_VOLUME is mounted. Each rank has a quarter of the rows of eight
matrices. All three writers sync. Prints the seconds of each run, medians, and the loads.
"""

import argparse
import os
import shutil
import statistics
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as processes
import weft
import weft.torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

MATRICES = 8
COLUMNS = 4096


def state(mesh, rows, fill):
    def part():
        local = torch.full((rows, COLUMNS), fill) if fill is not None else torch.zeros(rows, COLUMNS)
        return DTensor.from_local(local, mesh, [Shard(0)])

    return {f"matrix {number}": part() for number in range(MATRICES)}


def timed(work):
    """The seconds that the slowest rank needs."""
    dist.barrier()
    began = time.monotonic()
    work()
    seconds = torch.tensor(time.monotonic() - began)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return float(seconds)


def rank(number, options, port):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=number, world_size=options.ranks)
    mesh = init_device_mesh("cpu", (options.ranks,))
    rows = (options.mib << 20) // (MATRICES * COLUMNS * 4 * options.ranks)
    volume = weft.Volume()
    results = {}
    for run in range(options.runs + 1):
        saved = state(mesh, rows, float(run))
        for place in ("weft.torch", "mount", "local"):
            if place == "weft.torch":
                path = f"/torch-save-{run}"
                writer = weft.torch.CheckpointWriter(path, volume=volume)
                reader = weft.torch.CheckpointReader(path, volume=volume)
            else:
                base = options.mount if place == "mount" else options.folder
                path = os.path.join(base, f"torch-save-{run}.dcp")
                writer, reader = dcp.FileSystemWriter(path), dcp.FileSystemReader(path)
            save = timed(lambda: dcp.save(saved, storage_writer=writer))
            loaded = state(mesh, rows, None)
            load = timed(lambda: dcp.load(loaded, storage_reader=reader))
            for name, part in loaded.items():
                assert torch.equal(part.to_local(), saved[name].to_local()), f"{place} {name}"
            if run > 0:  # The first warms up.
                results.setdefault(place, []).append((save, load))
            dist.barrier()
            if number == 0:
                if place == "weft.torch":
                    volume.unlink(path)
                else:
                    shutil.rmtree(path)
            dist.barrier()
    dist.destroy_process_group()
    if number == 0:
        for place, runs in results.items():
            saves, loads = zip(*runs)
            print(
                f"{place:10}  save {statistics.median(saves):6.2f} s  load {statistics.median(loads):6.2f} s"
                f"  (saves {' '.join(f'{seconds:.2f}' for seconds in saves)})"
            )


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("mount")
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port = store.port
    del store
    processes.start_processes(rank, (options, port), nprocs=options.ranks, start_method="fork")


if __name__ == "__main__":
    main()
