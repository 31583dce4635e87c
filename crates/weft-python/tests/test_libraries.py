"""Libraries that read and write a volume through fsspec."""

import pickle

import pytest

fsspec = pytest.importorskip("fsspec")

import weft.fs  # noqa: E402, F401

ROWS = 20_000


@pytest.fixture
def options(volume_folder):
    return {"folder": volume_folder}


@pytest.fixture
def fs(options):
    return fsspec.filesystem("weft", **options)


@pytest.fixture
def url(folder):
    return f"weft://{folder}"


@pytest.fixture
def table():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {
            "number": range(ROWS),
            "half": [row / 2 for row in range(ROWS)],
            "name": [f"name {row % 7}" for row in range(ROWS)],
        }
    )


# pandas.


def test_pandas_csv(table, url, options):
    pandas = pytest.importorskip("pandas")
    for name in ("table.csv", "table.csv.gz"):
        table.to_csv(f"{url}/{name}", index=False, storage_options=options)
        read = pandas.read_csv(f"{url}/{name}", storage_options=options)
        pandas.testing.assert_frame_equal(read, table)
    with pytest.raises(FileNotFoundError):
        pandas.read_csv(f"{url}/none.csv", storage_options=options)


def test_pandas_parquet(table, url, options):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    table.to_parquet(f"{url}/table.parquet", storage_options=options)
    read = pandas.read_parquet(
        f"{url}/table.parquet", columns=["half"], storage_options=options
    )
    pandas.testing.assert_frame_equal(read, table[["half"]])
    table.to_parquet(f"{url}/parts", partition_cols=["name"], storage_options=options)
    part = [("name", "=", "name 3")]
    read = pandas.read_parquet(f"{url}/parts", filters=part, storage_options=options)
    assert sorted(read["number"]) == list(range(3, ROWS, 7))


def test_pandas_json_and_pickle(table, url, options):
    pandas = pytest.importorskip("pandas")
    table.to_json(f"{url}/table.json", orient="records", lines=True, storage_options=options)
    read = pandas.read_json(f"{url}/table.json", lines=True, storage_options=options)
    assert read["number"].tolist() == table["number"].tolist()
    table.to_pickle(f"{url}/table.pkl", storage_options=options)
    read = pandas.read_pickle(f"{url}/table.pkl", storage_options=options)
    pandas.testing.assert_frame_equal(read, table)


# pyarrow.


def test_pyarrow_parquet(fs, folder):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"number": list(range(ROWS)), "square": [n * n for n in range(ROWS)]})
    parquet.write_table(table, f"{folder}/table.parquet", filesystem=fs, row_group_size=1000)
    assert parquet.read_table(f"{folder}/table.parquet", filesystem=fs).equals(table)
    with fs.open(f"{folder}/table.parquet") as file:
        group = parquet.ParquetFile(file, pre_buffer=True).read_row_group(3, ["square"])
    assert group["square"].to_pylist() == [n * n for n in range(3000, 4000)]


def test_pyarrow_dataset(fs, folder):
    pyarrow = pytest.importorskip("pyarrow")
    dataset = pytest.importorskip("pyarrow.dataset")
    table = pyarrow.table({"part": [n % 5 for n in range(ROWS)], "number": list(range(ROWS))})
    parts = dataset.partitioning(pyarrow.schema([("part", pyarrow.int64())]), flavor="hive")
    dataset.write_dataset(
        table, f"{folder}/set", format="parquet", filesystem=fs, partitioning=parts
    )
    assert sorted(fs.ls(f"{folder}/set", detail=False)) == [
        f"{folder}/set/part={number}" for number in range(5)
    ]
    read = dataset.dataset(f"{folder}/set", format="parquet", filesystem=fs, partitioning=parts)
    chosen = read.to_table(filter=dataset.field("part") == 2, columns=["number"])
    assert sorted(chosen["number"].to_pylist()) == list(range(2, ROWS, 5))


def test_pyarrow_file_system(fs, folder):
    files = pytest.importorskip("pyarrow.fs")
    arrow = files.PyFileSystem(files.FSSpecHandler(fs))
    arrow.create_dir(f"{folder}/a/b")
    with arrow.open_output_stream(f"{folder}/a/b/file") as stream:
        stream.write(b"bytes" * 100)
    with arrow.open_append_stream(f"{folder}/a/b/file") as stream:
        stream.write(b"end")
    with arrow.open_input_file(f"{folder}/a/b/file") as file:
        assert (file.size(), file.read_at(3, 500)) == (503, b"end")
    arrow.copy_file(f"{folder}/a/b/file", f"{folder}/a/copy")
    arrow.move(f"{folder}/a/copy", f"{folder}/moved")
    listed = arrow.get_file_info(files.FileSelector(folder, recursive=True))
    assert {(info.path, info.type) for info in listed} == {
        (f"{folder}/a", files.FileType.Directory),
        (f"{folder}/a/b", files.FileType.Directory),
        (f"{folder}/a/b/file", files.FileType.File),
        (f"{folder}/moved", files.FileType.File),
    }
    missing = arrow.get_file_info([f"{folder}/none"])[0]
    assert missing.type == files.FileType.NotFound
    arrow.delete_dir_contents(f"{folder}/a")
    arrow.delete_file(f"{folder}/moved")
    assert fs.find(folder, withdirs=True) == [folder, f"{folder}/a"]


# zarr and xarray.


@pytest.mark.parametrize("sharded", [False, True])
def test_zarr(url, options, fs, folder, sharded):
    zarr = pytest.importorskip("zarr", minversion="3")
    numpy = pytest.importorskip("numpy")
    store = zarr.storage.FsspecStore.from_url(f"{url}/data.zarr", storage_options=options)
    root = zarr.create_group(store)
    root.attrs["title"] = "Weft"
    shards = (150, 100) if sharded else None
    field = root.create_array(
        "field", shape=(300, 200), chunks=(30, 50), shards=shards, dtype="f8"
    )
    model = numpy.random.default_rng(1).random((300, 200))
    field[...] = model
    field[10:20, ::3] = 1
    model[10:20, ::3] = 1
    again = zarr.open_group(
        zarr.storage.FsspecStore.from_url(f"{url}/data.zarr", storage_options=options), mode="r"
    )
    assert again.attrs["title"] == "Weft" and list(again.array_keys()) == ["field"]
    numpy.testing.assert_array_equal(again["field"][...], model)
    numpy.testing.assert_array_equal(again["field"][5:250:7, 3], model[5:250:7, 3])
    chunks = [name for name in fs.find(f"{folder}/data.zarr/field") if "/c/" in name]
    assert len(chunks) == (4 if sharded else 40)
    del root["field"]
    assert list(root.array_keys()) == []


def test_zarr_with_a_mapper(fs, folder):
    zarr = pytest.importorskip("zarr", minversion="3")
    mapper = fs.get_mapper(f"{folder}/map", create=True)
    mapper["a/b"] = b"bytes"
    assert dict(pickle.loads(pickle.dumps(mapper))) == {"a/b": b"bytes"}
    del mapper["a/b"]
    array = zarr.create_array(fs.get_mapper(f"{folder}/array"), shape=10, chunks=3, dtype="i4")
    array[:] = range(10)
    assert zarr.open_array(fs.get_mapper(f"{folder}/array"))[2:5].tolist() == [2, 3, 4]


def test_xarray(url, options):
    xarray = pytest.importorskip("xarray")
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("zarr")
    model = xarray.Dataset(
        {"heat": (("time", "x", "y"), numpy.arange(60.0).reshape(5, 3, 4))},
        coords={"time": numpy.arange(5), "x": [1.0, 2.0, 3.0]},
        attrs={"title": "Weft"},
    )
    model.to_zarr(f"{url}/data.zarr", storage_options=options)
    more = model.assign_coords(time=numpy.arange(5, 10))
    more.to_zarr(f"{url}/data.zarr", append_dim="time", storage_options=options)
    with xarray.open_zarr(f"{url}/data.zarr", storage_options=options) as read:
        xarray.testing.assert_identical(
            read.isel(time=slice(5)).load().drop_encoding(), model.drop_encoding()
        )
        assert read.sizes["time"] == 10 and float(read["heat"].sel(time=9, x=2.0)[1]) == 53.0


# dask.


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_dask_bag(url, options, scheduler):
    dask = pytest.importorskip("dask")
    bag = pytest.importorskip("dask.bag")
    with dask.config.set(scheduler=scheduler):
        lines = bag.from_sequence([f"line {n}" for n in range(100)], npartitions=4)
        lines.to_textfiles(f"{url}/*.txt", storage_options=options)
        read = bag.read_text(f"{url}/*.txt", storage_options=options, blocksize=100)
        assert read.map(str.strip).compute() == [f"line {n}" for n in range(100)]


def test_dask_array(url, options):
    array = pytest.importorskip("dask.array")
    pytest.importorskip("zarr")
    model = array.arange(10_000, chunks=1000).reshape(100, 100)
    model.to_zarr(f"{url}/array.zarr", storage_options=options)
    read = array.from_zarr(f"{url}/array.zarr", storage_options=options)
    assert int((read + 1).sum().compute()) == sum(range(1, 10_001))


def test_dask_dataframe(table, url, options):
    dataframe = pytest.importorskip("dask.dataframe")
    parts = dataframe.from_pandas(table, npartitions=4)
    parts.to_parquet(f"{url}/set", storage_options=options)
    read = dataframe.read_parquet(f"{url}/set", columns=["number"], storage_options=options)
    assert read.npartitions == 4 and int(read["number"].sum().compute()) == sum(range(ROWS))
    parts.to_csv(f"{url}/csv/*.csv", index=False, storage_options=options)
    read = dataframe.read_csv(f"{url}/csv/*.csv", blocksize=50_000, storage_options=options)
    assert read.npartitions > 4 and int(read["number"].sum().compute()) == sum(range(ROWS))


# DuckDB.


def test_duckdb(fs, url, table):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        connection.register("source", table)
        for kind in ("parquet", "csv"):
            connection.execute(f"COPY source TO '{url}/table.{kind}' (FORMAT {kind})")
            total = connection.execute(
                f"SELECT sum(number), count(*) FROM '{url}/*.{kind}' WHERE name = 'name 3'"
            ).fetchone()
            wanted = range(3, ROWS, 7)
            assert total == (sum(wanted), len(wanted))
        connection.execute(f"COPY source TO '{url}/parts' (FORMAT parquet, PARTITION_BY (name))")
        names = connection.execute(
            f"SELECT DISTINCT name FROM read_parquet('{url}/parts/*/*.parquet') ORDER BY name"
        ).fetchall()
        assert names == [(f"name {number}",) for number in range(7)]
        with pytest.raises(duckdb.Error):
            connection.execute(f"SELECT * FROM '{url}/none.parquet'")


# NumPy.


def test_numpy(fs, folder):
    numpy = pytest.importorskip("numpy")
    model = numpy.arange(1000.0).reshape(10, 100)
    with fs.open(f"{folder}/array.npy", "wb") as file:
        numpy.save(file, model)
    with fs.open(f"{folder}/arrays.npz", "wb") as file:
        numpy.savez_compressed(file, one=model, two=model.T)
    with fs.open(f"{folder}/array.npy") as file:
        numpy.testing.assert_array_equal(numpy.load(file), model)
    with fs.open(f"{folder}/arrays.npz") as file:
        numpy.testing.assert_array_equal(numpy.load(file)["two"], model.T)
