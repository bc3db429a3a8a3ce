"""A sixth agent CLI that does not exist, added as `CONTRIBUTING.md` tells: this folder is all of it."""
