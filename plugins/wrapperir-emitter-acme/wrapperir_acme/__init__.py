"""An emitter for the Acme accelerator, and the driver that it targets."""
