"""Arrays in files, compared with the same arrays in memory."""

import math
import pickle
import random
import threading

import pytest

numpy = pytest.importorskip("numpy")

import weft  # noqa: E402

SERVERS = 3


def made(volume, folder, shape, dtype="i4", order="C", **layout):
    array = volume.array(f"{folder}/a{random.getrandbits(48):x}", shape, dtype, order, **layout)
    model = numpy.arange(math.prod(shape)).astype(dtype).reshape(shape)
    array[...] = model
    return array, model


def random_key(rng, shape):
    key = []
    for extent in shape:
        kind = rng.randrange(4)
        if kind == 0 and extent:
            key.append(rng.randrange(-extent, extent))
        elif kind == 1:
            key.append(slice(None))
        else:
            step = rng.choice([-3, -2, -1, 1, 2, 5])
            ends = [rng.choice([None, rng.randrange(-extent - 1, extent + 2)]) for _ in range(2)]
            key.append(slice(*ends, step))
    for _ in range(rng.randrange(2)):
        key.insert(rng.randrange(len(key) + 1), None)
    if rng.random() < 0.3:
        key = key[: rng.randrange(len(key) + 1)] + [Ellipsis]
    return tuple(key)


@pytest.mark.parametrize("seed", range(60))
def test_slices_are_those_of_numpy(volume, folder, seed):
    rng = random.Random(seed)
    shape = tuple(rng.randrange(1, 9) for _ in range(rng.randrange(1, 5)))
    order = rng.choice("CF")
    dtype = rng.choice(["u1", "i2", "f4", "f8", "c16", ">i4", "?", "M8[ns]", "S3"])
    array, model = made(volume, folder, shape, dtype, order)
    for _ in range(6):
        key = random_key(rng, shape)
        expected = model[key]
        numpy.testing.assert_array_equal(array[key], expected)
        assert numpy.shape(array[key]) == expected.shape and array[key].dtype == expected.dtype
        if expected.ndim:
            # Into memory whose elements do not lie side by side.
            room = numpy.zeros([2 * extent + 1 for extent in expected.shape], model.dtype)
            out = room[tuple(slice(1, None, 2) for _ in expected.shape)][::-1]
            array.read(key, out=out)
            numpy.testing.assert_array_equal(out, expected)
            assert room.sum() == expected.sum() if model.dtype.kind in "iu" else True
        value = numpy.roll(expected, 1) if expected.size else expected
        model[key] = value
        array[key] = value if rng.random() < 0.5 else numpy.asfortranarray(value)
    numpy.testing.assert_array_equal(array[...], model)


@pytest.mark.parametrize("order", "CF")
def test_indices_and_masks_are_those_of_numpy(volume, folder, order):
    array, model = made(volume, folder, (20, 30, 4), "i8", order)
    rng = numpy.random.default_rng(1)
    keys = [
        ([3, 1, 3, -1],),
        (slice(None), [29, 0, 7]),
        ([1, 2], [3, 4], 0),
        (rng.integers(0, 20, (3, 5)), slice(None, None, 7)),
        (model[:, :, 0] % 3 == 0,),
        (Ellipsis, numpy.array([True, False, True, True])),
        (numpy.zeros((20, 30, 4), bool),),
    ]
    for key in keys:
        numpy.testing.assert_array_equal(array[key], model[key])
        value = rng.integers(0, 1000, model[key].shape)
        model[key] = value
        array[key] = value
        numpy.testing.assert_array_equal(array[...], model)


def test_values_are_spread_over_an_index(volume, folder):
    array, model = made(volume, folder, (10, 12), "f8")
    array[2] = model[2] = 7
    array[:, 1:3] = model[:, 1:3] = [1, 2]
    array[..., 5] = model[..., 5] = numpy.arange(10)
    numpy.testing.assert_array_equal(array[...], model)


def test_a_slice_is_one_request_to_each_server(volume, folder):
    array, model = made(volume, folder, (300, 200, 10), "f8")
    key = (slice(10, 290, 3), slice(None, None, -2), slice(1, None, 4))
    for call in (lambda: array[key], lambda: array.write(key, model[key])):
        before = volume.requests_sent
        call()
        assert volume.requests_sent - before <= SERVERS
    indices = numpy.random.default_rng(2).integers(0, 300, 50)
    before = volume.requests_sent
    numpy.testing.assert_array_equal(array[indices, :, 3], model[indices, :, 3])
    assert volume.requests_sent - before <= SERVERS


def test_shape_and_type_stay_with_the_file(volume, folder):
    record = numpy.dtype([("time", "<i8"), ("where", "<f4", (3,))])
    for dtype, order in [("f8", "F"), (">i4", "C"), (record, "C"), ("M8[ms]", "C")]:
        path = f"{folder}/{random.getrandbits(48):x}"
        with volume.array(path, (4, 5), dtype, order) as array:
            array[1:3] = numpy.ones((2, 5), dtype)
        with volume.open_array(path) as again:
            assert (again.shape, again.dtype, again.order) == ((4, 5), numpy.dtype(dtype), order)
            assert again[2, 2] == numpy.ones((), dtype)[()]
            with pytest.raises(OSError):
                again[0] = numpy.zeros(5, dtype)
    text = volume.getxattr(path, "user.weft.array")
    assert text == b"bytes8 4x5"
    with pytest.raises(OSError, match="holds no array"):
        volume.write(f"{folder}/plain", b"bytes")
        volume.open_array(f"{folder}/plain")


def test_chunks_choose_the_layout(volume, folder):
    array, _ = made(volume, folder, (64, 100), "f8", chunks=8)
    assert array.file.layout["bsu"] == 8 * 100 * 8
    with pytest.raises(ValueError, match="consecutive"):
        volume.array(f"{folder}/no", (64, 100), "f8", chunks=(8, 50))
    with pytest.raises(ValueError, match="do not fit"):
        volume.array(f"{folder}/no", (64, 100), "f8", chunks=0)
    small, model = made(volume, folder, (2,), "f8", chunks=8)
    numpy.testing.assert_array_equal(small[...], model)


def test_an_array_that_is_there_is_opened_or_kept(volume, folder):
    path = f"{folder}/kept"
    with volume.array(path, (4, 4), "i4") as array:
        array[...] = 7
    with volume.array(path, (4, 4), "i4") as array:
        assert (array[...] == 7).all()
    for shape, dtype, order in (((2,), "i4", "C"), ((4, 4), "f4", "C"), ((4, 4), "i4", "F")):
        with pytest.raises(FileExistsError, match="int32|i32 4x4"):
            volume.array(path, shape, dtype, order)
    with pytest.raises(FileExistsError):
        volume.array(path, (4, 4), "i4", exclusive=True)
    with volume.array(path, (2,), "f8", overwrite=True) as array:
        assert array[...].tolist() == [0, 0]
    volume.write(f"{folder}/text", b"some text")
    with pytest.raises(FileExistsError, match="9 bytes that are no array"):
        volume.array(f"{folder}/text", 3, "u1")
    with pytest.raises(TypeError):
        volume.array(f"{folder}/no", (2.5,), "u1")


def test_a_pickled_array_is_that_file_or_none(volume, folder):
    array, model = made(volume, folder, (4,), "i4")
    pickled = pickle.dumps(array)
    volume.rename(array.file.path, f"{folder}/renamed")
    with pickle.loads(pickled) as again:
        numpy.testing.assert_array_equal(again[...], model)
    array.close()
    volume.unlink(f"{folder}/renamed")
    volume.array(f"{folder}/renamed", (2,), "f8")[...] = 1.5
    # Nothing is attached before it is used.
    again = pickle.loads(pickled)
    with pytest.raises(OSError):
        again[...]


def test_members_write_and_read_together(volume, folder):
    members, shape = 4, (64, 40)
    path = f"{folder}/together"
    volume.array(path, shape, "i8").close()
    model = numpy.arange(64 * 40).reshape(shape)
    failures = []

    def member(number):
        try:
            group = weft.Group(f"{folder}-group", members, number)
            with volume.open_array(path, write=True) as array:
                mine = (slice(None), slice(number, None, members))
                array.write(mine, model[mine], group)
                theirs = (slice(number * 16, number * 16 + 16), slice(None, None, -1))
                numpy.testing.assert_array_equal(array.read(theirs, group=group), model[theirs])
                # One whose index is refused goes on; the others learn it and are in step again.
                with pytest.raises(IndexError if number == 1 else TimeoutError):
                    array.read((99 if number == 1 else 0, 0), group=group)
                assert array.read((5, number), group=group) == model[5, number]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=member, args=(number,)) for number in range(members)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_what_does_not_fit_is_refused(volume, folder):
    array, model = made(volume, folder, (4, 5), "f8")
    for key in [4, -5, (0, 0, 0), (Ellipsis, Ellipsis), "a", 1.5]:
        with pytest.raises(IndexError):
            array[key]
    with pytest.raises(ValueError):
        array[0] = [1, 2]
    with pytest.raises(ValueError):
        array.read(0, out=numpy.zeros(4))
    with pytest.raises(TypeError):
        array.read(0, out=numpy.zeros(5, "f4"))
    with pytest.raises(TypeError):
        volume.array(f"{folder}/objects", 3, object)
    array.close()
    with pytest.raises(OSError, match="closed"):
        array[0]
    numpy.testing.assert_array_equal(model.shape, (4, 5))


def test_an_array_can_be_pickled_and_read_by_numpy(volume, folder):
    array, model = made(volume, folder, (7, 9))
    again = pickle.loads(pickle.dumps(array))
    numpy.testing.assert_array_equal(numpy.asarray(again), model)
    assert len(again) == 7 and again.ndim == 2 and again.nbytes == model.nbytes
