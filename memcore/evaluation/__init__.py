"""Whether a memory works for given questions: ``dataset`` reads them, ``asking`` asks and judges.

Nothing here writes to an installation: who evaluates gives a store of his own, which is thrown away.
"""
