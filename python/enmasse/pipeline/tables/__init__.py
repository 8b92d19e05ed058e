"""Delta tables: `files` writes, describes and reads their Parquet files, `delta` appends batches
once and maintains tables, `log` reads commits.
"""
