"""Files that an emitted program takes with it, as they are: they import no wrapperir."""
