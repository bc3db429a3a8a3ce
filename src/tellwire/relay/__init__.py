"""Programs that run inside an agent's session: standard library only, started with `python -I -S` by path."""
