"""Light sources as beams, and reflection models."""
