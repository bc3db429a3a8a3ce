"""Side-by-side measurements of tellwire and its peers: `python -m bench`. No timed tests live here."""
