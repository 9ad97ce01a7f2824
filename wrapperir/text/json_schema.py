"""The JSON Schema of the JSON form, derived from the forms that read and write it.

``python -m wrapperir.text.json_schema`` prints it; ``docs/reference/wrapperir.schema.json``
holds its output, which a test checks.  A schema cannot express that names are unique, how
many operands an operator takes, and the limits on nesting.
"""

import json

from wrapperir.ir import SCHEMA_VERSION
from wrapperir.text.json_classes import definitions
from wrapperir.text.json_forms import JsonSchema


def json_schema() -> JsonSchema:
    """Return the schema, of draft 2020-12."""
    found = definitions()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"wrapperir program, version {SCHEMA_VERSION}",
        **found.pop("Program"),
        "$defs": found,
    }


def format_json_schema() -> str:
    """Return the text of the schema's file."""
    return json.dumps(json_schema(), indent=1) + "\n"


if __name__ == "__main__":
    print(format_json_schema(), end="")
