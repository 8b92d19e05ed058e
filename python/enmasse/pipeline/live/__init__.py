"""Live state: `database` applies each batch once to the tables of `schema`; tasks of Spark compute
its changes (`updates`), and one transaction commits them (`commits`). `alerts` sends alerts.
"""
