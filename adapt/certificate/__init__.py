"""Whether a translated picture still shows what its labels say."""
