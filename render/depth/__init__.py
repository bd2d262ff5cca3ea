"""Depth cameras: structured light, time of flight, active stereo."""
