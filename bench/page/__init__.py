"""docs/performance.md, made of the results of a run: `python -m bench.page RUN.json`."""
