"""Rigid-body simulation with contacts and recorded trajectories."""
