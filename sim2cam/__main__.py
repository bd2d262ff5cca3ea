"""``python -m sim2cam`` is the command ``sim2cam``."""

from sim2cam.cli.main import main

raise SystemExit(main())
