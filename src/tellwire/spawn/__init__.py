"""Terminals that agent CLIs run in: tmux, through libtmux, which has its home here."""
