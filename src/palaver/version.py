"""The version of this palaver."""

VERSION = "0.1.0"
