"""Engines that map work units to results: in process or in a pool of workers."""
