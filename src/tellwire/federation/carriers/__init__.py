"""What moves sealed blobs between machines; all behind `federation.ports.Carrier`."""
