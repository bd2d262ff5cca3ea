"""The command line: calls the pipeline, then the report."""
