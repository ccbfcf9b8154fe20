"""What runs inside a sandbox's box; it imports the standard library and itself alone."""
