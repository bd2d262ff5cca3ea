"""Poses, boxes, masks and lens models."""
