"""Object kinds, one module each: a new kind is a new module with a subclass of ``kind.ObjectKind``."""
