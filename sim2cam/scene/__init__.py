"""What a scene is: bodies, materials, light, cameras, as plain values, JSON both ways."""
