"""Every HTML page, made from values."""
