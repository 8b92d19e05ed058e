"""Windows: `merging` computes them, `gold_table` keeps them, `samples` what their quantiles are
found in; `recompute` says what gold has to be. `grouping` sorts and groups arrays.
"""
