"""Side-by-side measurements of palaver and its peers: `python -m bench`. No timed tests live here."""
