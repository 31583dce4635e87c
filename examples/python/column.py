"""Reads one column of a matrix of 64-bit floats in one call.

    python3 column.py PATH ROWS COLUMNS COLUMN

The volume is the one that WEFT_VOLUME names.
"""

import sys

import weft

path, rows, columns, column = sys.argv[1], *map(int, sys.argv[2:])
volume = weft.Volume()
with volume.attach(path) as file:
    elements = weft.Pattern.bytes(8).repeat(8 * columns, rows)
    buffer = memoryview(bytearray(len(elements)))
    before = volume.requests_sent
    file.view().read_request(buffer, elements, 8 * column)
    sent = volume.requests_sent - before
values = buffer.cast("d")
print(f"{len(values)} elements of column {column}, sum {sum(values):.0f}, requests sent: {sent}")
