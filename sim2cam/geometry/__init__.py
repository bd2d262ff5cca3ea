"""Poses, lenses, boxes: pure functions and values, the lowest floor."""
