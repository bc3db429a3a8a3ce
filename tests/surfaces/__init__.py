"""Every operation through every surface."""
