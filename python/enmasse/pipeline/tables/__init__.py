"""Delta tables: `delta` appends batches once and maintains files, `footers` reads statistics of
files, `log` the commits of a table.
"""
