"""Light as beams, and how surfaces throw it back."""
