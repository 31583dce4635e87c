"""Checkpoints of several processes, tensors and records of PyTorch."""

import os
import pickle
import socket
import time

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402
import weft  # noqa: E402
import weft.torch as wt  # noqa: E402

from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from torch.distributed.tensor import Shard as TensorShard  # noqa: E402

# Forked processes have none of the threads of this one.
torch.set_num_threads(1)

ROWS, COLUMNS = 48, 36
WORLD = 4


def save(state, writer):
    dcp.save(state, storage_writer=writer)


def load(state, reader):
    dcp.load(state, storage_reader=reader)


def whole(dtype=torch.float32, factor=1):
    return (torch.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) * factor).to(dtype)


def sharded(tensor, rank, grid):
    """The part of a tensor that a rank has when it is divided into a grid of ranks, alone and as a
    part."""
    down, across = grid
    rows, columns = ROWS // down, COLUMNS // across
    row, column = rank // across * rows, rank % across * columns
    local = tensor[row : row + rows, column : column + columns].clone()
    mesh = init_device_mesh("cpu", grid)
    return DTensor.from_local(local, mesh, [TensorShard(0), TensorShard(1)]), local


def in_ranks(*steps, world=WORLD):
    """Runs steps in processes of one group, each a function with arguments."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes.start_processes(_rank, (world, port, steps), nprocs=world, start_method="fork")


def _rank(rank, world, port, steps):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    try:
        for function, *arguments in steps:
            function(rank, *arguments)
            dist.barrier()
    finally:
        dist.destroy_process_group()


def load_alone(path, step, checkpoint=None):
    """Loads whole tensors in this process."""
    state = {
        "weights": torch.zeros(ROWS, COLUMNS),
        "half": torch.zeros(ROWS, COLUMNS, dtype=torch.float32),
        "step": torch.tensor(0),
    }
    reader = wt.CheckpointReader(path, checkpoint=checkpoint)
    load(state, reader)
    assert torch.equal(state["weights"], whole())
    assert torch.equal(state["half"], whole(torch.bfloat16, 2).float()), "converted"
    assert int(state["step"]) == step


# Checkpoints.


def _save_state(rank, path, grid, step, checkpoint=None):
    state = {
        "weights": sharded(whole(), rank, grid)[0],
        "half": sharded(whole(torch.bfloat16, 2), rank, grid)[0],
        "bias": torch.arange(7.0),
        "step": torch.tensor(step),
        "settings": {"rate": 0.5, "names": ["a", "b"]},
        "mixed": torch.tensor([1 + 2j], dtype=torch.complex128),
    }
    save(state, wt.CheckpointWriter(path, checkpoint=checkpoint))


def _load_state(rank, path, grid, step, checkpoint=None):
    weights, local = sharded(torch.zeros(ROWS, COLUMNS), rank, grid)
    half, local_half = sharded(torch.zeros(ROWS, COLUMNS, dtype=torch.bfloat16), rank, grid)
    state = {
        "weights": weights,
        "half": half,
        "bias": torch.zeros(7),
        "step": torch.tensor(0),
        "settings": {"rate": None, "names": [None, None]},
        "mixed": torch.zeros(1, dtype=torch.complex128),
    }
    load(state, wt.CheckpointReader(path, checkpoint=checkpoint))
    assert torch.equal(local, sharded(whole(), rank, grid)[1])
    assert torch.equal(local_half, sharded(whole(torch.bfloat16, 2), rank, grid)[1])
    assert torch.equal(state["bias"], torch.arange(7.0))
    assert int(state["step"]) == step
    assert state["settings"] == {"rate": 0.5, "names": ["a", "b"]}
    assert state["mixed"].tolist() == [1 + 2j]


def test_ranks_save_one_file_and_load_it_divided_otherwise(folder, volume):
    path = f"{folder}/state"
    grids = [(4, 1), (1, 4), (2, 2)]
    steps = []
    for number, grid in enumerate(grids):
        # Each takes the place of the one before.
        steps.append((_save_state, path, grid, number))
        steps += [(_load_state, path, other, number) for other in grids]
    in_ranks(*steps)
    assert [entry.name for entry in volume.list(folder)] == ["state"]
    in_ranks((_load_state, path, (1, 3), 2), world=3)
    load_alone(path, 2)
    # Other programs find whole tensors.
    tensors = wt.load_file(path, ["weights", "half", "bias"])
    assert torch.equal(tensors["weights"], whole())
    assert torch.equal(tensors["half"], whole(torch.bfloat16, 2))


def test_a_file_keeps_the_states_of_a_run(folder, volume):
    path = f"{folder}/run"
    steps = [(_save_state, path, (4, 1), step, f"step-{step}") for step in (1, 2)]
    loads = [(_load_state, path, (2, 2), step, f"step-{step}") for step in (1, 2)]
    in_ranks(*steps, *loads, (_load_state, path, (1, 4), 2))
    assert [known.name for known in volume.checkpoints(path)] == ["step-1", "step-2"]
    # Objects are no tensors.
    assert set(wt.load_file(path)) == {"weights", "half", "bias", "step", "mixed"}
    # One that is saved again takes the place of the first.
    state = {"weights": whole(), "half": whole(torch.bfloat16, 2), "step": torch.tensor(1)}
    save(state, wt.CheckpointWriter(path, checkpoint="step-1"))
    assert [known.name for known in volume.checkpoints(path)] == ["step-2", "step-1"]
    for again in (
        wt.CheckpointWriter(path, checkpoint="step-1", overwrite=False),
        wt.CheckpointWriter(path, overwrite=False),
    ):
        with pytest.raises(BaseException, match="File exists|checkpoint 'step-1'|file exists"):
            save(state, again)
    load_alone(path, 1, "step-1")
    with pytest.raises(BaseException, match="step-3"):
        load_alone(path, 3, "step-3")


def _save_badly(rank, path):
    weights = sharded(whole(), rank, (4, 1))[0]
    writer = wt.CheckpointWriter(path)
    if rank == 2:
        write_data = writer.write_data

        def broken(item):
            raise ValueError("not this one")

        def write_badly(plan, planner):
            planner.resolve_data = broken
            return write_data(plan, planner)

        writer.write_data = write_badly
    with pytest.raises(BaseException, match="not this one"):
        save({"weights": weights}, writer)


def test_a_rank_that_fails_fails_all_and_the_file_stays_as_it_was(folder, volume):
    path = f"{folder}/state"
    in_ranks(
        (_save_state, path, (4, 1), 5),
        (_save_badly, path),
        (_load_state, path, (2, 2), 5),
    )
    assert [entry.name for entry in volume.list(folder)] == ["state"]


def _die(rank, path):
    writer = wt.CheckpointWriter(path)
    if rank == 0:
        writer.finish = lambda **_: os._exit(3)
    save({"weights": sharded(whole(), rank, (4, 1))[0]}, writer)


def test_a_dead_coordinator_leaves_nothing_that_the_next_does_not_remove(folder, volume):
    path = f"{folder}/state"
    with pytest.raises(processes.ProcessExitedException):
        in_ranks((_die, path))
    assert not any(entry.name == "state" for entry in volume.list(folder))
    # The next save after the volume has noticed it.
    for _ in range(60):
        wt.save_file({"whole": whole()}, path)
        names = [entry.name for entry in volume.list(folder)]
        if names == ["state"]:
            break
        time.sleep(1)
    assert names == ["state"]


def test_a_rank_reads_its_part_with_one_request_to_each_server(folder, volume):
    path = f"{folder}/columns"
    matrix = torch.arange(4096 * 512, dtype=torch.float32).reshape(4096, 512)
    wt.save_file({"matrix": matrix}, path)
    reader = wt.CheckpointReader(path, volume=volume)
    target = torch.zeros(4096, 64)
    from weft.torch._memory import Reading, box

    with volume.attach(path) as file:
        view = file.view()
        reader.read_metadata()
        begin = reader._entries["matrix"].begin
        start, pattern = box((4096, 512), (0, 128), (4096, 64), 4)
        before = volume.requests_sent
        reading = Reading(view)
        reading.add(target, torch.float32, begin + start, pattern)
        reading.wait()
        assert volume.requests_sent - before <= 3
    assert torch.equal(target, matrix[:, 128:192])


def test_any_file_of_safetensors_is_loaded(folder):
    safetensors = pytest.importorskip("safetensors.torch")
    tensors = {"w": whole(), "b": torch.arange(5), "empty": torch.zeros(0, 3)}
    volume = weft.Volume()
    volume.write(f"{folder}/plain", safetensors.save(tensors, {"by": "someone"}))
    state = {"w": torch.zeros(ROWS, COLUMNS), "b": torch.zeros(5, dtype=torch.int64)}
    load(state, wt.CheckpointReader(f"{folder}/plain"))
    assert torch.equal(state["w"], whole()) and torch.equal(state["b"], torch.arange(5))
    # And what is written here, by the package.
    wt.save_file(tensors, f"{folder}/ours", {"by": "weft"})
    read = safetensors.load(bytes(volume.read(f"{folder}/ours")))
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)


# Files of safetensors.


def test_types_shapes_and_memory_survive(folder):
    dtypes = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
    dtypes += [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
    tensors = {str(dtype): whole(dtype) for dtype in dtypes}
    tensors["scalar"] = torch.tensor(3.5)
    tensors["empty"] = torch.zeros(3, 0)
    tensors["turned"] = whole().t()
    tensors["spread"] = torch.arange(3.0).expand(5, 3)
    tensors["stepped"] = whole()[::3, 1::2]
    tensors["conjugate"] = whole(torch.complex64, 1j).conj()
    tensors["large"] = torch.arange(1_000_000).reshape(1000, 1000).t()
    tensors["needs gradient"] = torch.nn.Parameter(torch.ones(3))
    wt.save_file(tensors, f"{folder}/all", {"format": "pt"})
    with wt.open_file(f"{folder}/all") as file:
        assert sorted(file.keys()) == sorted(tensors)
        assert file.metadata() == {"format": "pt"}
        for name, tensor in tensors.items():
            read = file.get_tensor(name)
            assert read.dtype == tensor.dtype and torch.equal(read, tensor.detach()), name
        assert file.get_tensors(["scalar"])["scalar"] == 3.5
        with pytest.raises(KeyError, match="nothing"):
            file.get_tensor("nothing")
        sliced = file.get_slice("large")
        assert sliced.get_shape() == [1000, 1000] and sliced.dtype == torch.int64
        assert torch.equal(sliced[10:20, ::-7], tensors["large"][10:20].flip(1)[:, ::7])
        assert sliced[3, 4] == tensors["large"][3, 4] and sliced[3, 4].shape == ()
        assert torch.equal(file.get_slice("torch.bfloat16")[5], whole(torch.bfloat16)[5])
        assert file.get_slice("large")[5:5].shape == (0, 1000)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1234567",
        bytes(100),
        b"\xff" * 100,
        (1 << 40).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (3).to_bytes(8, "little") + b"{\xff}",
        (30000).to_bytes(8, "little") + b"[" * 30000,
    ],
)
def test_what_is_no_file_of_safetensors_is_refused(folder, volume, data):
    volume.write(f"{folder}/bad", data)
    with pytest.raises(OSError) as caught:
        wt.open_file(f"{folder}/bad")
    assert caught.value.filename == f"{folder}/bad" and caught.value.strerror


@pytest.mark.parametrize(
    "said",
    [
        '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}}',
        '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}',
        '{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}',
        '{"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}}',
        '{"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}}',
        '{"a":{"shape":[2],"data_offsets":[0,8]}}',
        '{"a":[]}',
        '{"__metadata__":[1]}',
        '{"__metadata__":{"weft.objects":"no list"}}',
        '{"__metadata__":{"weft.objects":"[\\"a\\"]"}}',
    ],
)
def test_a_damaged_header_is_refused(folder, volume, said):
    volume.write(f"{folder}/bad", len(said).to_bytes(8, "little") + said.encode() + bytes(6))
    with pytest.raises(OSError, match="header is damaged"):
        wt.open_file(f"{folder}/bad")


def test_a_file_that_is_not_saved_leaves_nothing(folder, volume):
    volume.write(f"{folder}/kept", b"as it was")

    class Broken:
        pass

    with pytest.raises(TypeError, match="b is no tensor"):
        wt.save_file({"a": torch.ones(3), "b": Broken()}, f"{folder}/kept")
    with pytest.raises(TypeError, match="list of names"):
        wt.load_file(f"{folder}/kept", "a")
    assert bytes(volume.read(f"{folder}/kept")) == b"as it was"
    assert [entry.name for entry in volume.list(folder)] == ["kept"]


# Records.


@pytest.fixture
def images(folder, volume):
    data = torch.arange(1000 * 6, dtype=torch.int32).reshape(1000, 2, 3)
    volume.write(f"{folder}/images", b"head" + bytes(data.numpy().tobytes()))
    return f"{folder}/images", data


def test_shuffled_batches_are_list_requests(images, volume):
    path, data = images
    records = wt.Records(path, (2, 3), torch.int32, base=4, volume=volume)
    assert len(records) == 1000
    assert torch.equal(records[999], data[999]) and torch.equal(records[-1], data[999])
    chosen = torch.randperm(1000)[:256].tolist()
    before = volume.requests_sent
    batch = records[chosen]
    assert volume.requests_sent - before <= 3
    assert torch.equal(batch, data[chosen])
    assert torch.equal(records[[5, 5, 2]], data[[5, 5, 2]])
    assert torch.equal(records[2:10:3], data[2:10:3])
    for wrong in (1000, -1001):
        with pytest.raises(IndexError):
            records[wrong]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_each_record_once(images, workers):
    path, data = images
    records = wt.Records(path, (2, 3), torch.int32, base=4)
    utils = torch.utils.data
    for loader in (
        utils.DataLoader(records, batch_size=64, shuffle=True, num_workers=workers),
        utils.DataLoader(
            records,
            sampler=utils.BatchSampler(utils.RandomSampler(records), 64, False),
            batch_size=None,
            num_workers=workers,
        ),
    ):
        batches = list(loader)
        assert len(batches) == 16
        seen = torch.cat(batches)
        assert torch.equal(seen[seen[:, 0, 0].argsort()], data)


def test_records_of_any_length(folder, volume):
    texts = [b"one", b"", b"three", b"x" * 5000]
    bounds = [0]
    for text in texts:
        bounds.append(bounds[-1] + len(text))
    volume.write(f"{folder}/texts", b"".join(texts))
    volume.write(f"{folder}/bounds", b"".join(b.to_bytes(8, "little") for b in bounds))
    for known in (bounds, torch.tensor(bounds), f"{folder}/bounds"):
        records = wt.Records(f"{folder}/texts", bounds=known, transform=lambda r: bytes(r.tolist()))
        assert records[[3, 0, 1, 2]] == [texts[3], texts[0], texts[1], texts[2]]
        assert records[1] == b""
    plain = wt.Records(f"{folder}/texts", bounds=bounds)
    assert [len(record) for record in plain[[0, 3]]] == [3, 5000]
    assert len(pickle.loads(pickle.dumps(plain))) == 4
    for bad in ([0, 10**9], [3, 1], [-1, 2], [], [[1]]):
        with pytest.raises(ValueError):
            wt.Records(f"{folder}/texts", bounds=bad)


def test_records_that_do_not_fit_are_refused(images):
    path, _ = images
    for arguments in ({"shape": (2, 3), "count": 6000}, {"shape": (0,)}, {}, {"shape": 1, "bounds": [0]}):
        with pytest.raises(ValueError):
            wt.Records(path, **arguments)
