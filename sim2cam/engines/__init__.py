"""Execution of work units in process or in a process pool."""
