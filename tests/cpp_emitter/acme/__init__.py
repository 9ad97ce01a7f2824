"""The C++ emitter for a made-up device."""
