"""The version of this tellwire."""

VERSION = "0.1.0"
