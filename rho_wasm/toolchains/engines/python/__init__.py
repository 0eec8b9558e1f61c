"""Python that runs inside the CPython engine, never in the host: the guest module ``rho`` and what boots it.

It is ordinary source, so that it can be read, linted, typed and tested like the rest; `cpython.py` carries its text
into the interpreter while the engine is made.
"""
