"""What is so now: `database` keeps it, each batch once, in the tables of `schema`; `incidents`
sends alerts to their addresses.
"""
