"""Bodies that fall and come to rest, and what touched what on the way."""
