"""A learned, unpaired translator that begins as the identity and cannot move geometry."""
