"""The client of agent engines: sends memories and maintenance jobs, and reads their outcomes.

Its modules load neither a broker library nor a model; both wait until the first job is sent.
"""
