"""Rows of a dataset from every process, through h5py's driver "mpio": mpiio_h5py.py FILE"""
import sys

import h5py
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
rows, columns = 64 * size, 1000
with h5py.File(sys.argv[1], "w", driver="mpio", comm=comm) as file:
    data = file.create_dataset("data", (rows, columns), dtype="f8")
    with data.collective:
        data[rank::size, :] = numpy.arange(columns) + 1000 * rank
    data[rank, 10:20] = -rank - 1
    comm.Barrier()
with h5py.File(sys.argv[1], "r", driver="mpio", comm=comm) as file:
    data = file["data"]
    other = (rank + 1) % size
    with data.collective:
        read = data[other::size, ::3]
    expected = numpy.tile(numpy.arange(0, columns, 3) + 1000.0 * other, (64, 1))
    marked = [i for i in range(len(expected[0])) if 10 <= 3 * i < 20]
    expected[0, marked] = -other - 1
    assert numpy.array_equal(read, expected), (rank, read, expected)
if rank == 0:
    print("all rows")
