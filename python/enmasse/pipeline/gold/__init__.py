"""Gold: windows of readings, updated from silver by a query of its own. `query` has its steps and
`loop` their schedule, `windows` the aggregations, `layout` the files that a change affects, `table`
reads and writes them, `progress` reports the lag, and `verification` compares gold with silver.
"""
