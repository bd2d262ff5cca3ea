"""What lens, shutter and sensor make of the light."""
