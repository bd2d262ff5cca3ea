"""Stages run over many samples; returns values, writes no pages."""
