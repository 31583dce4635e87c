"""Names, attributes, checkpoints, quotas, errors, and handles across processes."""

import errno
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import pytest
import weft


def test_names_are_made_listed_renamed_and_removed(volume, folder):
    volume.mkdir(f"{folder}/d", permissions=0o750)
    volume.write(f"{folder}/d/f", b"bytes")
    volume.link(f"{folder}/d/f", f"{folder}/d/g")
    volume.symlink("f", f"{folder}/d/s")
    assert [(entry.name, entry.kind) for entry in volume.list(f"{folder}/d")] == [
        ("f", "file"),
        ("g", "file"),
        ("s", "link"),
    ]
    assert volume.readlink(f"{folder}/d/s") == "f"
    assert volume.stat(f"{folder}/d/s").kind == "file"
    assert volume.stat(f"{folder}/d/s", follow=False).kind == "link"
    assert volume.stat(f"{folder}/d").mode & 0o777 == 0o750
    stat = volume.stat(f"{folder}/d/f")
    assert (stat.size, stat.links) == (5, 2)
    volume.rename(f"{folder}/d/f", f"{folder}/d/h")
    with pytest.raises(FileExistsError):
        volume.rename(f"{folder}/d/g", f"{folder}/d/h", replace=False)
    volume.exchange(f"{folder}/d/h", f"{folder}/d/s")
    with pytest.raises(OSError) as refused:
        volume.rmdir(f"{folder}/d")
    assert refused.value.errno == errno.ENOTEMPTY
    for name in "ghs":
        volume.unlink(f"{folder}/d/{name}")
    volume.rmdir(f"{folder}/d")
    assert volume.list(folder) == []


def test_names_need_not_be_text(volume, folder):
    name = b"\xff\xfe odd"
    volume.write(folder.encode() + b"/" + name, b"1")
    (entry,) = volume.list(folder)
    assert os.fsencode(entry.name) == name
    assert volume.read(f"{folder}/{entry.name}") == b"1"
    with pytest.raises(ValueError):
        volume.stat("a\0b")
    with pytest.raises(TypeError):
        volume.stat(3)


def test_attributes_and_extended_attributes_are_set(volume, folder):
    path = f"{folder}/f"
    volume.write(path, b"bytes", permissions=0o600)
    stat = volume.set_attributes(path, permissions=0o640, modified_ns=12_000_000_007)
    assert (stat.mode & 0o7777, stat.modified_ns) == (0o640, 12_000_000_007)
    assert volume.set_attributes(path, policy="posix").policy == "posix"
    assert volume.set_attributes(path, policy="").policy is None
    volume.setxattr(path, "user.colour", b"red", create=True)
    with pytest.raises(FileExistsError):
        volume.setxattr(path, "user.colour", b"blue", create=True)
    assert volume.getxattr(path, "user.colour") == b"red"
    assert "user.colour" in volume.listxattr(path)
    volume.removexattr(path, "user.colour")
    with pytest.raises(OSError) as missing:
        volume.getxattr(path, "user.colour")
    assert missing.value.errno == errno.ENODATA
    volume.truncate(path, 2)
    assert volume.read(path) == b"by"
    volume.mkdir(f"{folder}/d")
    volume.set_attributes(f"{folder}/d", layout={"cells": 2, "bsu": 8192})
    with volume.attach(f"{folder}/d/f", write=True, create=True) as file:
        assert (file.layout["cells"], file.layout["bsu"], file.created) == (2, 8192, True)


def test_failures_are_os_errors_with_file_and_reason(volume, folder):
    path = f"{folder}/missing"
    with pytest.raises(FileNotFoundError) as missing:
        volume.attach(path)
    assert missing.value.errno == errno.ENOENT
    assert missing.value.filename == path and missing.value.strerror
    volume.write(f"{folder}/f", b"")
    with pytest.raises(FileExistsError):
        volume.attach(f"{folder}/f", write=True, exclusive=True)
    with pytest.raises(NotADirectoryError):
        volume.stat(f"{folder}/f/g")
    with pytest.raises(IsADirectoryError):
        volume.attach(folder, write=True)
    with volume.attach(f"{folder}/f") as file:
        with pytest.raises(OSError):
            file.view().write(b"x")
    with pytest.raises(OSError, match="closed"):
        file.view()
    for wrong in [{"create": True}, {"layout": {"cells": 1}}, {"write": True, "policy": "none?"}]:
        with pytest.raises(ValueError):
            volume.attach(f"{folder}/f", **wrong)
    with pytest.raises(ValueError, match="colour"):
        volume.attach(f"{folder}/g", write=True, create=True, layout={"colour": 1})
    with pytest.raises(OSError):
        weft.Volume("/no/such/volume")


def test_checkpoints_keep_what_was(volume, folder):
    path = f"{folder}/f"
    volume.write(path, b"first")
    made = volume.make_checkpoint(path, "one")
    with volume.attach(path, write=True) as file:
        view = file.view()
        view.write(b"SECOND", 0)
        old = view.of_checkpoint(made.number)
        buffer = bytearray(5)
        assert old.read_into(buffer) == 5 and buffer == b"first"
    assert [(found.name, found.size) for found in volume.checkpoints(path)] == [("one", 5)]
    volume.roll_back(path, "one")
    assert volume.read(path) == b"first"
    volume.remove_checkpoint(path, "one")
    assert volume.checkpoints(path) == []


def test_quotas_bound_what_is_used(volume, folder):
    quota = volume.set_quota(tree=folder, files_max=3)
    assert (quota.kind, quota.files_max, quota.bytes_max) == ("tree", 3, None)
    with pytest.raises(OSError) as refused:
        for number in range(5):
            volume.write(f"{folder}/{number}", b"")
    assert refused.value.errno == errno.EDQUOT
    assert any(found.path == folder for found in volume.quotas())
    volume.clear_quota(tree=folder)
    with pytest.raises(ValueError):
        volume.set_quota(user=1, group=1)


def test_forks_locks_and_policies_of_a_file(volume, folder):
    with volume.attach(f"{folder}/f", write=True, create=True) as file:
        file.create_fork(0, "index")
        fork = file.view("cell=0", fork="index")
        fork.write(b"indexed")
        assert (0, "index", 7) in file.forks()
        buffer = bytearray(7)
        file.view("cell=0@index").read_into(buffer)
        assert buffer == b"indexed"
        file.remove_fork(0, "index")
        with pytest.raises(ValueError):
            file.view("cell=0@index", fork="index")
        with pytest.raises(ValueError):
            file.view("no view")
        assert file.lock(0, 10, owner=1) and not file.lock(5, 1, owner=2, wait_for_it=False)
        file.unlock(0, 10, owner=1)
        file.set_policy("session")
        assert file.policy == "session"
        file.view().write(b"bytes")
        file.commit()
        file.set_policy(None)
        file.extend(100)
        assert file.size == 100 and file.stat().size == 100
        file.sync()


def test_servers_copy_between_files(volume, folder):
    volume.write(f"{folder}/a", bytes(range(256)) * 1000)
    with volume.attach(f"{folder}/a") as source:
        with volume.attach(f"{folder}/b", write=True, create=True) as target:
            assert target.copy_from(source, 10, 5, 100_000) == 100_000
            assert target.copy_from(source, 255_990, 0) == 10
    copied = volume.read(f"{folder}/b")
    assert copied[:10] == bytes(range(246, 256)) and copied[10:20] == bytes(range(15, 25))
    assert len(copied) == 100_005


def test_a_child_uses_the_handles_of_its_parent(volume, folder):
    file = volume.attach(f"{folder}/f", write=True, create=True)
    view = file.view()
    view.write(b"parent")
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            view.read_into(bytearray(6))

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(5):
        child = os.fork()
        if child == 0:
            try:
                buffer = bytearray(6)
                view.read_into(buffer)
                view.write(b"child %d" % number, 10 * (number + 1))
                volume.write(f"{folder}/of child {number}", bytes(buffer))
                os._exit(0)
            except BaseException as error:
                print(error, file=sys.stderr)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert status == 0
    stop.set()
    for thread in threads:
        thread.join()
    for number in range(5):
        buffer = bytearray(7)
        view.read_into(buffer, 10 * (number + 1))
        assert buffer == b"child %d" % number
        assert volume.read(f"{folder}/of child {number}") == b"parent"
    file.close()


def read_in_worker(view):
    buffer = bytearray(6)
    view.read_into(buffer)
    return bytes(buffer)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_handles_are_pickled_to_workers(volume, folder, method):
    volume.write(f"{folder}/f", b"shared")
    file = volume.attach(f"{folder}/f")
    view = file.view("partition=0,3,6")
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(read_in_worker, [file.view()] * 4) == [b"shared"] * 4
        assert pool.map(read_in_worker, [view])[0][:3] == b"sha"
    again = pickle.loads(pickle.dumps(volume))
    assert isinstance(again, weft.Volume) and again.read(f"{folder}/f") == b"shared"


def test_threads_share_a_connection(volume, folder):
    failures = []

    def work(number):
        try:
            for turn in range(20):
                volume.write(f"{folder}/{number}", b"%d %d" % (number, turn))
                assert volume.read(f"{folder}/{number}") == b"%d %d" % (number, turn)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_errors_are_those_of_plain_files(volume, folder):
    for write in (False, True):
        with pytest.raises(IsADirectoryError):
            volume.attach(folder, write=write)
    volume.write(f"{folder}/f", b"bytes")
    with volume.attach(f"{folder}/f") as file:
        with pytest.raises(OSError, match="reading only") as caught:
            file.view().write(b"other")
        assert caught.value.errno == errno.EBADF
    assert volume.read(f"{folder}/f") == b"bytes"


def test_an_interrupt_ends_a_call_that_waits(volume_folder, folder):
    program = f"""
import os, signal, threading, weft
group = weft.Group("nobody else comes", 2, 0, wait=20)
file = weft.Volume().attach("{folder}/f", write=True, create=True)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    file.view().write_request(b"bytes", weft.Pattern.bytes(5), group=group)
except KeyboardInterrupt:
    print("interrupted")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert ended.stdout == "interrupted\n", ended.stderr
