"""Windows: a query of its own brings gold to where silver is. `query` takes its steps and `loop`
says when, `windows` has the aggregations, `layout` which files a change touches, `table` reads and
writes these, `progress` tells how far gold is, and `comparison` whether it is right.
"""
