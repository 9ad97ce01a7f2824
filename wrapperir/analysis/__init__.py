"""What is known of a program's memory: storages, lifetimes, bytes, order of streams."""
