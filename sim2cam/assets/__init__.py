"""Import of meshes and models: readers, repair, convex decomposition, cache."""
