"""Support for editors: highlighting, and a language server for the text form."""
