"""Rows of a variable from every process, through parallel NetCDF-4: mpiio_netcdf4.py FILE"""
import sys

import netCDF4
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
with netCDF4.Dataset(sys.argv[1], "w", parallel=True, comm=comm, info=MPI.Info()) as file:
    file.createDimension("row", 64 * size)
    file.createDimension("column", 100)
    data = file.createVariable("data", "f8", ("row", "column"))
    data.set_collective(True)
    data[64 * rank:64 * (rank + 1), :] = numpy.arange(6400).reshape(64, 100) + 10000 * rank
with netCDF4.Dataset(sys.argv[1], "r", parallel=True, comm=comm, info=MPI.Info()) as file:
    other = (rank + 1) % size
    read = file["data"][64 * other:64 * (other + 1), :]
    assert numpy.array_equal(read, numpy.arange(6400).reshape(64, 100) + 10000.0 * other), rank
if rank == 0:
    print("all rows")
