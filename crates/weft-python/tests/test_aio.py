"""The same for asyncio."""

import asyncio

import pytest
import weft
from weft import aio


def test_many_requests_are_in_flight_in_one_loop(volume_folder, folder):
    async def main():
        volume = await aio.connect(volume_folder)
        async with await volume.attach(f"{folder}/f", write=True, create=True) as file:
            view = await file.view()
            writes = [view.write(bytes([i]) * 1000, 1000 * i) for i in range(100)]
            assert await asyncio.gather(*writes) == [1000] * 100
            buffers = [bytearray(10) for _ in range(100)]
            reads = [
                view.read_request(buffer, weft.Pattern.bytes(1).repeat(100, 10), 1000 * i)
                for i, buffer in enumerate(buffers)
            ]
            await asyncio.gather(*reads)
            assert buffers == [bytes([i]) * 10 for i in range(100)]
            await view.sync()
            assert await file.size() == 100_000
            assert file.path == f"{folder}/f" and file.writable and view.position == 0
        entries = await volume.list(folder)
        assert [entry.name for entry in entries] == ["f"]
        with pytest.raises(FileNotFoundError):
            await volume.stat(f"{folder}/missing")

    asyncio.run(main())


def test_a_cancelled_task_gives_its_memory_back(volume_folder, folder):
    async def main():
        volume = await aio.connect(volume_folder)
        file = await volume.attach(f"{folder}/f", write=True, create=True)
        view = await file.view()
        buffer = bytearray(10)
        group = weft.Group(f"{folder} alone", 2, 0, wait=60)
        task = asyncio.create_task(view.read_request(buffer, weft.Pattern.bytes(10), group=group))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        buffer.extend(b"not exported any more")
        await file.close()

    asyncio.run(main())


def test_arrays_are_read_and_written(volume_folder, folder):
    numpy = pytest.importorskip("numpy")

    async def main():
        volume = await aio.connect(volume_folder)
        array = await volume.array(f"{folder}/a", (30, 40), "i4")
        model = numpy.arange(1200, dtype="i4").reshape(30, 40)
        await asyncio.gather(*(array.write(row, model[row]) for row in range(30)))
        out = numpy.zeros((15, 40), "i4")
        await array.read_into(slice(None, None, 2), out)
        numpy.testing.assert_array_equal(out, model[::2])
        await array.close()

    asyncio.run(main())
