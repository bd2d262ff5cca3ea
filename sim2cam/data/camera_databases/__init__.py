"""Public databases of measured cameras: noise profiles of darktable, lens profiles of Lensfun."""
