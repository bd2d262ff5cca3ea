"""What a camera is, told from its own captures: lens, sensor, and how sure each number is."""
