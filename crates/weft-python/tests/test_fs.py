"""``weft.fs``: names, bytes, open files, transactions, and what must be refused."""

import asyncio
import concurrent.futures
import datetime
import io
import os
import pickle
import random

import pytest

fsspec = pytest.importorskip("fsspec")

import weft  # noqa: E402
from weft.fs import WeftFileSystem  # noqa: E402

SERVERS = 3


@pytest.fixture
def fs(volume_folder):
    return WeftFileSystem(volume_folder)


def requests(fs, call):
    before = fs.volume.requests_sent
    result = call()
    return fs.volume.requests_sent - before, result


# URLs and instances.


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("weft:///a/b", "/a/b"),
        ("weft:///a//b/", "/a/b"),
        ("weft://host:7000/a", "/a"),
        ("weft://[::1]:7000/a", "/a"),
        ("weft://host:7000", "/"),
        ("weft://", "/"),
        ("/a", "/a"),
        ("a/b", "/a/b"),
        ("", "/"),
    ],
)
def test_a_url_names_a_path(url, path):
    assert WeftFileSystem._strip_protocol(url) == path
    assert WeftFileSystem._strip_protocol([url]) == [path]


def test_a_url_names_an_address(volume_folder):
    assert WeftFileSystem._get_kwargs_from_urls("weft://host:7000/a") == {"address": "host:7000"}
    assert WeftFileSystem._get_kwargs_from_urls("weft:///a") == {}
    for wrong in ("weft://host/a", "weft://:7/a", "weft://host:port/a"):
        with pytest.raises(ValueError, match="three slashes"):
            WeftFileSystem._strip_protocol(wrong)


def test_a_volume_is_opened_by_its_address(volume_folder, fs, folder):
    with open(os.path.join(volume_folder, "volume.address")) as file:
        address = file.read().split()[0]
    keys = [name for name in os.listdir(volume_folder) if "key" in name]
    key_file = os.path.join(volume_folder, keys[0])
    url = f"weft://{address}{folder}/file"
    fs.pipe(f"{folder}/file", b"bytes")
    with fsspec.open(url, key_file=key_file) as file:
        assert file.read() == b"bytes"
        assert file.fs.unstrip_protocol(file.path) == url == file.full_name


def test_the_environment_names_the_volume(volume_folder, monkeypatch, tmp_path, folder):
    monkeypatch.setenv("WEFT_VOLUME", volume_folder)
    fs, path = fsspec.core.url_to_fs(f"weft://{folder}")
    assert isinstance(fs, WeftFileSystem) and path == folder and fs.isdir(path)
    assert fs.unstrip_protocol(path) == f"weft://{folder}"
    # An instance that was made for another environment is not used again.
    monkeypatch.setenv("WEFT_VOLUME", str(tmp_path))
    with pytest.raises(OSError, match="not the folder of a volume"):
        fsspec.filesystem("weft")


def test_a_volume_that_is_not_there_is_refused(tmp_path, monkeypatch):
    with pytest.raises(OSError, match="not the folder of a volume"):
        WeftFileSystem(str(tmp_path / "none"))
    with pytest.raises(OSError, match="not by both"):
        WeftFileSystem(str(tmp_path), address="127.0.0.1:1", key_file="/none")
    with pytest.raises(OSError):
        WeftFileSystem(address="127.0.0.1:1", key_file=str(tmp_path / "none"))
    for name in ("WEFT_VOLUME", "WEFT_ADDRESS", "WEFT_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(OSError, match="no volume is named"):
        WeftFileSystem()


def test_instances_share_a_connection_and_are_pickled(fs, volume_folder, folder):
    again = pickle.loads(pickle.dumps(fs))
    assert again == fs and again.volume is fs.volume
    assert fsspec.AbstractFileSystem.from_json(fs.to_json()).fsid == fs.fsid
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        other = thread.submit(WeftFileSystem, volume_folder).result()
    assert other.volume is fs.volume and other.fsid == fs.fsid


def _read_in_child(fs, path):
    return os.getpid(), fs.cat_file(path)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_another_process_uses_an_instance(fs, folder, method):
    import multiprocessing

    fs.pipe(f"{folder}/file", b"bytes")
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        pid, data = pool.submit(_read_in_child, fs, f"{folder}/file").result(60)
    assert pid != os.getpid() and data == b"bytes"


# Names.


def test_listings_are_fresh_and_one_request(fs, folder):
    assert fs.ls(folder) == []
    for name in "abc":
        fs.pipe(f"{folder}/{name}", name.encode() * 5)
    fs.mkdir(f"{folder}/d")
    count, listed = requests(fs, lambda: fs.ls(folder))
    assert count == 1
    assert {(i["name"], i["type"], i["size"]) for i in listed} == {
        (f"{folder}/a", "file", 5),
        (f"{folder}/b", "file", 5),
        (f"{folder}/c", "file", 5),
        (f"{folder}/d", "directory", 0),
    }
    assert sorted(fs.ls(folder, detail=False)) == [f"{folder}/{n}" for n in "abcd"]
    assert fs.ls(f"{folder}/a", detail=False) == [f"{folder}/a"]
    assert fs.ls(f"{folder}/a") == [fs.info(f"{folder}/a")]
    assert fs.info(f"{folder}/a") in listed
    assert folder in fs.ls("/", detail=False)


def test_trees_are_walked(fs, folder):
    fs.pipe({f"{folder}/x/1.txt": b"1", f"{folder}/x/y/2.txt": b"22", f"{folder}/3.bin": b"333"})
    assert fs.find(folder) == [f"{folder}/3.bin", f"{folder}/x/1.txt", f"{folder}/x/y/2.txt"]
    found = fs.find(folder, maxdepth=1, withdirs=True)
    # An older fsspec does not name the folder itself.
    assert set(found) - {folder} == {f"{folder}/3.bin", f"{folder}/x"}
    assert fs.glob(f"{folder}/**/*.txt") == [f"{folder}/x/1.txt", f"{folder}/x/y/2.txt"]
    assert fs.glob(f"{folder}/*") == [f"{folder}/3.bin", f"{folder}/x"]
    assert fs.glob(f"{folder}/none*") == []
    assert [(top, dirs, files) for top, dirs, files in fs.walk(f"{folder}/x")] == [
        (f"{folder}/x", ["y"], ["1.txt"]),
        (f"{folder}/x/y", [], ["2.txt"]),
    ]
    assert fs.du(folder) == 6
    assert fs.cat(f"{folder}/x", recursive=True) == {
        f"{folder}/x/1.txt": b"1",
        f"{folder}/x/y/2.txt": b"22",
    }


def test_links_are_followed_to_files_and_never_in_a_circle(fs, folder):
    fs.pipe(f"{folder}/file", b"bytes")
    fs.mkdir(f"{folder}/d")
    fs.symlink(f"{folder}/file", f"{folder}/to_file")
    fs.symlink(folder, f"{folder}/d/up")
    fs.symlink(f"{folder}/none", f"{folder}/broken")
    info = fs.info(f"{folder}/to_file")
    assert (info["type"], info["size"], info["islink"]) == ("file", 5, True)
    assert info["destination"] == f"{folder}/file"
    assert fs.info(f"{folder}/broken")["type"] == "link"
    assert not fs.exists(f"{folder}/broken") and fs.lexists(f"{folder}/broken")
    assert fs.isdir(f"{folder}/d/up") and fs.islink(f"{folder}/d/up")
    assert len(fs.find(folder)) == 4
    fs.link(f"{folder}/file", f"{folder}/hard")
    assert fs.info(f"{folder}/hard")["nlink"] == 2
    fs.rm(folder, recursive=True)
    assert not fs.exists(folder)


def test_directories_are_made_and_removed(fs, folder):
    fs.mkdir(f"{folder}/a/b/c")
    with pytest.raises(FileExistsError):
        fs.mkdir(f"{folder}/a")
    with pytest.raises(FileExistsError):
        fs.makedirs(f"{folder}/a/b")
    fs.makedirs(f"{folder}/a/b", exist_ok=True)
    with pytest.raises(FileNotFoundError):
        fs.mkdir(f"{folder}/p/q", create_parents=False)
    fs.touch(f"{folder}/file")
    with pytest.raises(FileExistsError):
        fs.makedirs(f"{folder}/file", exist_ok=True)
    with pytest.raises(NotADirectoryError):
        fs.makedirs(f"{folder}/file/d")
    with pytest.raises(OSError):
        fs.rmdir(f"{folder}/a")
    with pytest.raises(IsADirectoryError):
        fs.rm(f"{folder}/a")
    with pytest.raises(NotADirectoryError):
        fs.rmdir(f"{folder}/file")
    fs.rmdir(f"{folder}/a/b/c")
    fs.rm([f"{folder}/a", f"{folder}/file"], recursive=True)
    assert fs.ls(folder) == []


def test_a_move_is_a_rename(fs, folder):
    fs.pipe(f"{folder}/d/file", b"bytes")
    number = fs.info(f"{folder}/d/file")["ino"]
    count, _ = requests(fs, lambda: fs.volume.rename(f"{folder}/d", f"{folder}/e"))
    moved, _ = requests(fs, lambda: fs.mv(f"{folder}/e", f"{folder}/f", recursive=True))
    # Beside the rename: whether the new name is a directory.
    assert moved <= count + 1
    assert fs.info(f"{folder}/f/file")["ino"] == number
    fs.mv(f"{folder}/f/file", f"{folder}/new/deep/name")
    fs.mkdir(f"{folder}/into")
    fs.mv(f"{folder}/new/deep/name", f"{folder}/into")
    assert fs.info(f"{folder}/into/name")["ino"] == number
    fs.pipe(f"{folder}/old", b"old")
    fs.mv(f"{folder}/into/name", f"{folder}/old")
    assert fs.cat(f"{folder}/old") == b"bytes"
    fs.mv(f"{folder}/old", f"{folder}/old")
    fs.pipe({f"{folder}/1.x": b"1", f"{folder}/2.x": b"2"})
    fs.mv(f"{folder}/*.x", f"{folder}/into")
    assert sorted(fs.ls(f"{folder}/into", detail=False)) == [
        f"{folder}/into/1.x",
        f"{folder}/into/2.x",
    ]
    fs.mv([f"{folder}/into/1.x", f"{folder}/into/2.x"], [f"{folder}/1", f"{folder}/2"])
    assert fs.cat([f"{folder}/1", f"{folder}/2"]) == {f"{folder}/1": b"1", f"{folder}/2": b"2"}
    with pytest.raises(FileNotFoundError):
        fs.mv(f"{folder}/none", f"{folder}/nowhere/at/all")
    assert not fs.exists(f"{folder}/nowhere")


def test_times_and_keys_follow_changes(fs, folder):
    path = f"{folder}/file"
    before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=5)
    fs.pipe(path, b"bytes")
    created, modified, key, sum_ = (
        fs.created(path),
        fs.modified(path),
        fs.ukey(path),
        fs.checksum(path),
    )
    assert before < created <= modified
    assert (fs.ukey(path), fs.checksum(path)) == (key, sum_)
    fs.cat(path)
    assert fs.ukey(path) == key
    fs.touch(path, truncate=False)
    assert fs.modified(path) > modified and fs.ukey(path) != key and fs.size(path) == 5
    fs.touch(path)
    assert fs.size(path) == 0
    fs.chmod(path, 0o600)
    assert fs.info(path)["mode"] & 0o777 == 0o600


# Bytes.


def test_files_are_read_by_slices(fs, folder):
    data = random.Random(1).randbytes(1 << 20)
    path = f"{folder}/file"
    fs.pipe(path, data)
    places = [None, 0, 1, 1000, len(data) - 1, len(data), len(data) + 9, -1, -1000, -2 * len(data)]
    for start in places:
        for end in [*places, 1 << 60]:
            assert fs.cat_file(path, start, end) == data[start:end], (start, end)
    every = [(start, end) for start in places for end in places]
    found = fs.cat_ranges([path] * len(every), [s for s, _ in every], [e for _, e in every])
    assert found == [data[start:end] for start, end in every]
    end = len(data)
    found = fs.cat_ranges([path] * 3, [0, end - 5, end + 7], [5, end + 5, 1 << 21])
    assert found == [data[:5], data[-5:], b""]
    assert fs.head(path, 10) == data[:10] and fs.tail(path, 10) == data[-10:]
    assert fs.read_block(path, 5, 10) == data[5:15]


def test_ranges_of_a_file_are_one_request_to_each_server(fs, folder):
    data = random.Random(2).randbytes(4 << 20)
    fs.pipe(f"{folder}/file", data)
    starts = [random.Random(seed).randrange(len(data) - 1000) for seed in range(100)]
    ends = [start + 1000 for start in starts]
    attach, _ = requests(fs, lambda: fs.volume.attach(f"{folder}/file").close())
    count, found = requests(fs, lambda: fs.cat_ranges([f"{folder}/file"] * 100, starts, ends))
    assert found == [data[start:end] for start, end in zip(starts, ends)]
    assert SERVERS - 1 <= count - attach <= SERVERS
    # Files have a list each.
    paths = [f"{folder}/{number}" for number in range(20)]
    fs.pipe({path: path.encode() * 10 for path in paths})
    found = fs.cat_ranges([paths[n % 20] for n in range(200)], [n % 7 for n in range(200)], 9)
    assert found == [(paths[n % 20].encode() * 10)[n % 7 : 9] for n in range(200)]


def test_a_range_that_cannot_be_read_is_returned_or_raised(fs, folder):
    fs.pipe(f"{folder}/file", b"bytes")
    paths = [f"{folder}/file", f"{folder}/none", folder]
    found = fs.cat_ranges(paths, 0, 3)
    assert found[0] == b"byt"
    assert isinstance(found[1], FileNotFoundError) and isinstance(found[2], IsADirectoryError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(paths, 0, 3, on_error="raise")
    with pytest.raises(ValueError):
        fs.cat_ranges(paths, [0], [3])
    with pytest.raises(TypeError):
        fs.cat_ranges(f"{folder}/file", 0, 3)
    assert fs.cat_ranges([], [], []) == []


def test_bytes_replace_a_file_at_once(fs, folder):
    path = f"{folder}/file"
    fs.pipe(path, b"old bytes")
    with fs.open(path, "rb") as reader:
        fs.pipe(path, memoryview(b"new"))
        assert reader.read() == b"old bytes"
    assert fs.cat(path) == b"new"
    with pytest.raises(FileExistsError):
        fs.pipe(path, b"other", mode="create")
    with pytest.raises(TypeError):
        fs.pipe(path, 7)
    with pytest.raises(IsADirectoryError):
        fs.pipe(folder, b"other")
    # No temporary file is left.
    assert fs.ls(folder, detail=False) == [path] and fs.cat(path) == b"new"
    name = f"{folder}/{'n' * 255}"
    fs.pipe(name, b"long")
    assert fs.cat(name) == b"long"
    fs.pipe(f"{folder}/layout", b"x", layout={"cells": 1, "bsu": 4096}, permissions=0o600)
    stat = fs.volume.stat(f"{folder}/layout")
    assert (stat.cells, stat.bsu, stat.mode & 0o777) == (1, 4096, 0o600)


def test_files_are_copied_put_and_got(fs, folder, tmp_path):
    data = random.Random(3).randbytes((9 << 20) + 5)
    (tmp_path / "local").write_bytes(data)
    fs.put(str(tmp_path / "local"), f"{folder}/a/file")
    fs.cp(f"{folder}/a/file", f"{folder}/b/file")
    fs.get(f"{folder}/b/file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data
    with pytest.raises(FileNotFoundError):
        fs.cp_file(f"{folder}/none", f"{folder}/c")
    with pytest.raises(FileNotFoundError):
        fs.get_file(f"{folder}/none", str(tmp_path / "none"))
    assert sorted(fs.ls(folder, detail=False)) == [f"{folder}/a", f"{folder}/b"]


def test_directories_are_made_only_when_asked(volume_folder, folder):
    strict = WeftFileSystem(volume_folder, auto_mkdir=False)
    for call in (
        lambda: strict.open(f"{folder}/d/file", "wb"),
        lambda: strict.pipe(f"{folder}/d/file", b""),
        lambda: strict.touch(f"{folder}/d/file"),
    ):
        with pytest.raises(FileNotFoundError):
            call()
    assert not strict.exists(f"{folder}/d")


def test_threads_make_the_same_directories(fs, folder):
    paths = [f"{folder}/{n % 3}/{n % 7}/{n}" for n in range(100)]
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda path: fs.pipe(path, path.encode()), paths))
    assert fs.find(folder) == sorted(paths)
    assert fs.cat(paths) == {path: path.encode() for path in paths}


# Open files.


@pytest.mark.parametrize("seed", range(20))
def test_an_open_file_is_one_of_python(fs, folder, tmp_path, seed):
    """The same calls on a file of the volume and on a local one."""
    rng = random.Random(seed)
    path, local = f"{folder}/file", tmp_path / "file"
    for _ in range(4):
        there = local.exists()
        mode = rng.choice(["wb", "w+b", "ab", "a+b"] + (["rb", "r+b"] * 2 if there else ["xb"]))
        # In append mode the position depends on when the buffer is sent.
        buffer = rng.choice([2, 64, 1000, 1 << 20])
        ours = fs.open(path, mode, block_size=buffer)
        with ours, open(local, mode, buffering=buffer) as model:
            assert ours.readable() == model.readable() and ours.writable() == model.writable()
            for _ in range(25):
                kind = rng.randrange(6)
                amount = rng.choice([0, 1, 100, 3000])
                if kind == 0 and model.readable():
                    assert ours.read(amount) == model.read(amount)
                elif kind == 1 and model.writable():
                    data = rng.randbytes(amount)
                    assert ours.write(data) == model.write(data)
                elif kind == 2:
                    place = (rng.randrange(5000), os.SEEK_SET)
                    assert ours.seek(*place) == model.seek(*place)
                elif kind == 3:
                    assert ours.seek(0, os.SEEK_END) == model.seek(0, os.SEEK_END)
                elif kind == 4 and model.writable():
                    size = rng.randrange(5000)
                    assert ours.truncate(size) == model.truncate(size)
                elif kind == 5 and model.readable():
                    assert ours.readline() == model.readline()
                assert ours.tell() == model.tell(), mode
        assert fs.cat(path) == local.read_bytes()


def test_text_and_compression(fs, folder):
    with fs.open(f"{folder}/text", "w", encoding="utf-8", newline="") as file:
        file.write("één\nzwei\r\n")
    with fs.open(f"{folder}/text", "r", encoding="utf-8") as file:
        assert list(file) == ["één\n", "zwei\n"]
    with fs.open(f"{folder}/text", "a") as file:
        file.write("drei")
    assert fs.read_text(f"{folder}/text", encoding="utf-8").endswith("drei")
    with fs.open(f"{folder}/packed.gz", "wb", compression="infer") as file:
        file.write(b"bytes" * 1000)
    assert fs.size(f"{folder}/packed.gz") < 1000
    with fs.open(f"{folder}/packed.gz", "rb", compression="infer") as file:
        assert file.read() == b"bytes" * 1000


def test_small_reads_share_a_request(fs, folder):
    data = random.Random(4).randbytes(1 << 20)
    fs.pipe(f"{folder}/file", data)
    with fs.open(f"{folder}/file") as file:
        count, parts = requests(fs, lambda: [file.read(1000) for _ in range(1000)])
        assert b"".join(parts) == data[:1000000] and count <= SERVERS
        file.seek(0)
        count, whole = requests(fs, file.read)
        assert whole == data and count <= 2 * SERVERS
    with fs.open(f"{folder}/new", "wb") as file:
        count, _ = requests(fs, lambda: [file.write(data[:1000]) for _ in range(1000)])
        assert count == 0
    assert fs.cat(f"{folder}/new") == data[:1000] * 1000


@pytest.mark.parametrize("seed", range(5))
def test_reading_ahead_gives_the_same_bytes(fs, folder, seed):
    rng = random.Random(seed)
    data = rng.randbytes(rng.randrange(1, 300_000))
    fs.pipe(f"{folder}/file", data)
    with fs.open(f"{folder}/file", block_size=rng.choice([100, 4096, 50_000])) as file:
        model = io.BytesIO(data)
        for _ in range(200):
            if rng.random() < 0.1:
                place = rng.randrange(len(data) + 10)
                assert file.seek(place) == model.seek(place)
            amount = rng.choice([1, 1000, 5000, 60_000])
            assert file.read(amount) == model.read(amount)


def test_reading_ahead_asks_once_too_often(fs, folder, monkeypatch):
    data = random.Random(5).randbytes(8 << 20)
    fs.pipe(f"{folder}/file", data)

    def read():
        with fs.open(f"{folder}/file") as file:
            return b"".join(iter(lambda: file.read(100_000), b""))

    count, found = requests(fs, read)
    monkeypatch.setattr("weft._raw.READ_AHEAD", 0)
    plain, again = requests(fs, read)
    # The read that was posted at the end.
    assert found == again == data and plain <= count <= plain + SERVERS


def test_a_reader_sees_the_file_grow(fs, folder):
    with fs.open(f"{folder}/log", "wb") as log, fs.open(f"{folder}/log", block_size=100) as file:
        seen = b""
        for number in range(50):
            log.write(f"line {number}\n".encode() * 9)
            log.flush()
            seen += file.read()
            seen += file.read(7)
        assert seen == fs.cat(f"{folder}/log")


def test_a_child_goes_on_reading(fs, folder):
    data = random.Random(6).randbytes(100_000)
    fs.pipe(f"{folder}/file", data)
    file = fs.open(f"{folder}/file", block_size=1000)
    assert file.read(5000) == data[:5000]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, b"same" if file.read() == data[5000:] else b"different")
        finally:
            os._exit(0)
    os.close(writing)
    assert os.read(reading, 100) == b"same"
    os.close(reading)
    os.waitpid(child, 0)
    assert file.read() == data[5000:]
    file.close()


def test_an_open_file_says_what_it_is(fs, folder):
    path = f"{folder}/file"
    with fs.open(path, "wb") as file:
        file.write(b"bytes")
        assert (file.path, file.mode, file.fs, file.size) == (path, "wb", fs, 5)
        assert file.autocommit and isinstance(file, io.BufferedIOBase)
        file.fsync()
        with pytest.raises(RuntimeError):
            file.commit()
        with pytest.raises(RuntimeError):
            file.discard()
        with pytest.raises(TypeError, match="open for writing"):
            pickle.dumps(file)
        assert path in repr(file)
    assert file.closed and file.size == 5
    with fs.open(path) as file:
        assert file.info() == fs.info(path) and file.size == 5
        file.seek(2)
        again = pickle.loads(pickle.dumps(file))
        assert again.read() == b"tes" and file.read() == b"tes"
        again.close()
    opened = pickle.loads(pickle.dumps(fsspec.core.OpenFile(fs, path)))
    with opened as file:
        assert file.read() == b"bytes"


def test_wrong_modes_and_closed_files_are_refused(fs, folder):
    path = f"{folder}/file"
    fs.pipe(path, b"bytes")
    for mode in ("", "b", "rw", "q", "rbb", "r++b", "wxb"):
        with pytest.raises(ValueError):
            fs.open(path, mode)
    with pytest.raises(ValueError):
        fs.open(path, "rb", block_size=0)
    with fs.open(path, "rb") as file:
        for call in (lambda: file.write(b"x"), lambda: file.truncate(1)):
            with pytest.raises(io.UnsupportedOperation):
                call()
        for place in ((-1, os.SEEK_SET), (-9, os.SEEK_END), (0, 9)):
            with pytest.raises(ValueError):
                file.seek(*place)
    for call in (file.read, file.tell, lambda: file.seek(0), file.fsync, lambda: file.size):
        with pytest.raises(ValueError):
            call()
    file.close()
    with fs.open(path, "ab") as file:
        with pytest.raises(io.UnsupportedOperation):
            file.read()
    with pytest.raises(FileExistsError):
        fs.open(path, "xb")
    for mode in ("rb", "r+b"):
        with pytest.raises(FileNotFoundError):
            fs.open(f"{folder}/none/file", mode)
    assert not fs.exists(f"{folder}/none")
    for mode in ("rb", "wb", "ab", "xb"):
        with pytest.raises((IsADirectoryError, FileExistsError)):
            fs.open(folder, mode)
    with pytest.raises(NotADirectoryError):
        fs.open(f"{path}/below", "wb")


def test_missing_files_are_refused_everywhere(fs, folder):
    path = f"{folder}/none"
    for call in (
        lambda: fs.info(path),
        lambda: fs.ls(path),
        lambda: fs.cat(path),
        lambda: fs.cat_file(path, 0, 1),
        lambda: fs.rm(path),
        lambda: fs.rm(path, recursive=True),
        lambda: fs.rm_file(path),
        lambda: fs.rmdir(path),
        lambda: fs.created(path),
        lambda: fs.modified(path),
        lambda: fs.ukey(path),
        lambda: fs.checksum(path),
        lambda: fs.cp(path, folder),
        lambda: fs.chmod(path, 0o600),
        lambda: fs.touch(f"{path}/\0"),
    ):
        with pytest.raises((FileNotFoundError, ValueError)):
            call()
    assert not fs.exists(path) and not fs.isdir(path) and not fs.isfile(path)
    assert not fs.lexists(path) and fs.find(path) == []


# Transactions.


def test_a_transaction_commits_all_at_its_end(fs, folder, tmp_path):
    fs.pipe({f"{folder}/old": b"old", f"{folder}/log": b"1"})
    (tmp_path / "local").write_bytes(b"local")
    with fs.transaction:
        with fs.open(f"{folder}/new", "wb") as file:
            file.write(b"new")
            assert not file.autocommit and file.info()["name"] == f"{folder}/new"
        with fs.open(f"{folder}/log", "ab") as file:
            file.write(b"2")
        fs.pipe(f"{folder}/old", b"other")
        fs.put_file(str(tmp_path / "local"), f"{folder}/put")
        fs.cp_file(f"{folder}/old", f"{folder}/copy")
        fs.touch(f"{folder}/touched")
        assert not fs.exists(f"{folder}/new") and fs.cat(f"{folder}/old") == b"old"
        with pytest.raises(ValueError, match="cannot undo"):
            fs.open(f"{folder}/old", "r+b")
    contents = {name.rsplit("/", 1)[1]: data for name, data in fs.cat(folder, True).items()}
    assert contents == {
        "new": b"new",
        "log": b"12",
        "old": b"other",
        "put": b"local",
        "copy": b"old",
        "touched": b"",
    }


def test_a_transaction_that_fails_leaves_nothing(fs, folder):
    fs.pipe(f"{folder}/old", b"old")
    with pytest.raises(RuntimeError, match="enough"):
        with fs.transaction:
            fs.pipe(f"{folder}/old", b"other")
            # This one is still open.
            fs.open(f"{folder}/new", "wb").write(b"new")
            raise RuntimeError("enough")
    assert fs.ls(folder, detail=False) == [f"{folder}/old"] and fs.cat(f"{folder}/old") == b"old"
    # What follows is in no transaction.
    fs.pipe(f"{folder}/after", b"after")
    assert fs.cat(f"{folder}/after") == b"after"


def test_an_exclusive_file_of_a_transaction_replaces_nothing(fs, folder):
    with pytest.raises(FileExistsError):
        with fs.transaction:
            with fs.open(f"{folder}/file", "xb") as file:
                file.write(b"late")
            fs.pipe(f"{folder}/next", b"discarded")
            fs.volume.write(f"{folder}/file", b"first")
    assert fs.cat(f"{folder}/file") == b"first"
    assert fs.ls(folder, detail=False) == [f"{folder}/file"]
    # The transaction has ended.
    fs.pipe(f"{folder}/after", b"after")
    assert fs.cat(f"{folder}/after") == b"after"
    fs.start_transaction()
    fs.pipe(f"{folder}/started", b"started")
    assert not fs.exists(f"{folder}/started")
    fs.end_transaction()
    assert fs.cat(f"{folder}/started") == b"started"


# asyncio.


def test_the_wrapper_of_fsspec_makes_it_async(fs, folder):
    wrapper = pytest.importorskip("fsspec.implementations.asyn_wrapper")

    async def main():
        wrapped = wrapper.AsyncFileSystemWrapper(fs, asynchronous=True)
        paths = [f"{folder}/{number}" for number in range(10)]
        await asyncio.gather(*(wrapped._pipe_file(path, path.encode()) for path in paths))
        assert await asyncio.gather(*(wrapped._cat_file(path) for path in paths)) == [
            path.encode() for path in paths
        ]
        assert await wrapped._cat_ranges([paths[0]] * 2, [0, 1], [1, 3]) == [
            paths[0].encode()[:1],
            paths[0].encode()[1:3],
        ]
        assert sorted(await wrapped._ls(folder, detail=False)) == paths
        await wrapped._rm(folder, recursive=True)
        assert not await wrapped._exists(folder)

    asyncio.run(main())


def test_the_volume_of_an_instance_is_at_hand(fs, folder):
    assert isinstance(fs.volume, weft.Volume)
    assert fs.volume.stat(folder).kind == "directory"


def test_sparse_files_are_read_as_zeros_up_to_their_end(fs, volume, folder):
    path = f"{folder}/sparse"
    with volume.attach(path, write=True, create=True, layout={"cells": 3, "bsu": 4096}) as file:
        file.truncate(100_000)
        file.view().write(b"middle", 50_000)
    expected = bytes(50_000) + b"middle" + bytes(49_994)
    assert fs.cat_file(path) == expected
    assert fs.cat_file(path, 90_000, 200_000) == bytes(10_000)
    assert fs.cat_ranges([path] * 2, [49_990, 99_000], [50_010, 101_000]) == [
        expected[49_990:50_010],
        bytes(1000),
    ]
    with fs.open(path, "rb", block_size=7000) as file:
        assert file.read(60_000) == expected[:60_000]
        assert file.read() == expected[60_000:]
    assert volume.read(path) == expected


def test_coroutines_for_asyncio(fs, volume_folder, folder):
    async def main():
        other = fsspec.filesystem("weft", folder=volume_folder, asynchronous=True)
        await asyncio.gather(*(other._pipe_file(f"{folder}/{n}", b"%d" % n) for n in range(20)))
        read = await asyncio.gather(*(other._cat_file(f"{folder}/{n}") for n in range(20)))
        assert read == [b"%d" % n for n in range(20)]
        assert len(await other._ls(folder)) == 20
        assert (await other._info(f"{folder}/13"))["size"] == 2

    asyncio.run(main())
