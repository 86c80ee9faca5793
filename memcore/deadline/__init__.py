"""Deadlines of reading requests, and circuit breakers: no reader waits long for a part that is away.

A request waits for one part for two fifths of its deadline at most. The first time-out opens the part's circuit breaker
for every request of the process: those that follow are refused at once, and after a pause one of them tries the part.
What has no deadline, such as a write or maintenance, is neither limited nor refused.
"""
