"""Facts about a program's memory: storages, live ranges, bytes and the order of streams."""
