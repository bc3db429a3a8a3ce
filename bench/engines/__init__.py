"""The engines: one file for each, all behind `bench.engine`."""
