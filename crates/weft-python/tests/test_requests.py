"""Views, structured requests, collectives, shared pointers, operations in the background."""

import select
import threading

import pytest
import weft
from weft import Pattern

SERVERS = 3


@pytest.fixture
def file(volume, folder):
    layout = {"cells": 3, "bsu": 4096}
    with volume.attach(f"{folder}/f", write=True, create=True, layout=layout) as file:
        file.view().write(bytes(range(256)) * 4096)
        yield file


def test_a_strided_request_is_one_message_to_each_server(volume, file):
    view = file.view()
    records = Pattern.bytes(8).repeat(1024, 1000)
    buffer = bytearray(len(records))
    before = volume.requests_sent
    assert view.read_request(buffer, records, 16) == 8000
    assert volume.requests_sent - before <= SERVERS
    assert bytes(buffer) == bytes(range(16, 24)) * 1000
    before = volume.requests_sent
    view.write_request(b"\xee" * 8000, records, 16, synced=True)
    assert volume.requests_sent - before <= SERVERS
    read = bytearray(32)
    view.read_into(read, 5 * 1024)
    assert read[16:24] == b"\xee" * 8 and read[:16] == bytes(range(16))


def test_patterns_are_nested_batched_and_listed(file):
    view = file.view()
    pair = Pattern.sequence([(0, Pattern.bytes(2)), (10, Pattern.bytes(3))])
    nested = pair.repeat(256, 4).repeat(4096, 2)
    buffer = bytearray(len(nested))
    view.read_request(buffer, nested)
    assert bytes(buffer) == bytes([0, 1, 10, 11, 12]) * 8
    listed = Pattern.runs([(300, 2), (5, 1), (1000, 3)])
    buffer = bytearray(6)
    view.read_request(buffer, listed)
    assert bytes(buffer) == bytes([44, 45, 5, 232, 233, 234])
    memory = Pattern.bytes(1).repeat(2, 6)
    spread = bytearray(12)
    view.read_request(spread, listed, memory=memory)
    assert bytes(spread[::2]) == bytes(buffer) and not any(spread[1::2])
    assert hash(listed) == hash(Pattern.runs([(300, 2), (5, 1), (1000, 3)]))
    with pytest.raises(OSError):
        view.write_request(b"12", Pattern.runs([(0, 1), (0, 1)]))
    assert view.write_request(b"12", Pattern.runs([(0, 1), (0, 1)]), last_wins=True) == 2
    one = bytearray(1)
    view.read_into(one)
    assert one == b"2"
    with pytest.raises(OSError):
        view.read_request(bytearray(3), listed)
    with pytest.raises((BufferError, TypeError)):
        view.read_request(b"immutable", Pattern.bytes(9))


def test_lists_have_memory_of_their_own(volume, file):
    view = file.view()
    runs = [(1000 * i, bytearray(i % 7 + 1)) for i in range(100)]
    before = volume.requests_sent
    view.read_list(runs)
    assert volume.requests_sent - before <= SERVERS
    for offset, buffer in runs:
        assert bytes(buffer) == bytes((offset + i) % 256 for i in range(len(buffer)))
    before = volume.requests_sent
    assert view.write_list([(5, b"five"), (50_000, b"fifty")]) == 9
    assert volume.requests_sent - before <= SERVERS


def test_views_divide_a_file(file):
    whole = bytearray(file.size)
    file.view().read_into(whole)
    parts = [file.view(f"subfile=1,1,1,3,{part}") for part in range(3)]
    assert sum(part.size for part in parts) == len(whole)
    cell = bytearray(4096)
    file.view("cell=1").read_into(cell)
    assert cell == whole[4096:8192]
    view = file.view()
    view.seek(10)
    first, second = bytearray(4), bytearray(4)
    view.read_next_into(first)
    view.read_next_into(second)
    assert first + second == whole[10:18] and view.position == 18
    view.write_next(b"next")
    view.clear(0, 8)
    view.prefetch(0, 4096)
    view.release(0, 4096)
    view.read_into(first)
    assert first == b"\0" * 4
    beyond = bytearray(b"x" * 10)
    assert view.read_into(beyond, file.size - 4) == 4 and not any(beyond[4:])


def members(count, work):
    failures = []

    def member(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=member, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def test_collectives_and_pointers_of_a_group(volume, folder, file):
    handed = file.hand_over()

    def work(number):
        group = weft.Group(folder, 3, number)
        view = volume.adopt(handed).view()
        mine = Pattern.bytes(16).repeat(48, 100)
        view.write_request(bytes([number]) * 1600, mine, 16 * number, group=group)
        buffer = bytearray(1600)
        view.read_request(buffer, mine, 16 * ((number + 1) % 3), group=group)
        assert bytes(buffer) == bytes([(number + 1) % 3]) * 1600
        pointer = view.shared_pointer("ordered")
        assert pointer.take(10 + number, group=group) == [0, 10, 21][number]

    assert not members(3, work)
    pointer = file.view().shared_pointer("ordered")
    assert pointer.position == 33
    pointer.seek(0)
    buffer = bytearray(4)
    pointer.read_into(buffer)
    assert pointer.write(b"more") == 4 and pointer.position == 8
    pointer.remove()


def test_a_member_that_does_not_come_fails_the_others(folder, file):
    group = weft.Group(folder, 2, 0, wait=0.5)
    with pytest.raises(OSError, match="1"):
        file.view().write_request(b"bytes", Pattern.bytes(5), group=group)
    for wrong in [("", 1, 0), ("g", 1, 1), ("g", 10_000, 0), ("g" * 65, 1, 0)]:
        with pytest.raises(ValueError):
            weft.Group(*wrong)


def test_operations_go_on_in_the_background(file):
    view = file.view()
    buffers = [bytearray(4096) for _ in range(16)]
    posted = [
        view.post_read(buffer, Pattern.bytes(4096), 4096 * i) for i, buffer in enumerate(buffers)
    ]
    assert weft.wait_any(posted, timeout=10) in range(16)
    ready, _, _ = select.select([posted[3]], [], [], 10)
    assert ready == [posted[3]] and posted[3].done()
    assert [operation.wait() for operation in posted] == [4096] * 16
    assert all(bytes(buffer) == bytes(range(256)) * 16 for buffer in buffers)
    with pytest.raises(OSError, match="closed"):
        posted[0].wait()
    view.post_write(b"w" * 100_000, Pattern.bytes(100_000)).wait()
    view.post_sync().wait()
    operation = view.post_read(buffers[0], Pattern.bytes(4096))
    with pytest.raises(BufferError):
        buffers[0].extend(b"its memory is lent")
    operation.cancel()
    buffers[0].extend(b"it is not any more")
    # An operation that is forgotten gives its memory back, too.
    view.post_read(buffers[1], Pattern.bytes(4096))
    buffers[1].extend(b"more")
