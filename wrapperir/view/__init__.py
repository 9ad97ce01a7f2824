"""One page that shows a program beside its source and the code of each emitter."""

from wrapperir.view.link_program import ProgramText
from wrapperir.view.lowering_stages import StageLinks
from wrapperir.view.pass_steps import StepRecorder, run_steps
from wrapperir.view.profile_times import WrongProfileError, add_times
from wrapperir.view.view_page import ProgramView, format_view
from wrapperir.view.view_program import view_program

__all__ = [
    "ProgramText",
    "ProgramView",
    "StageLinks",
    "StepRecorder",
    "WrongProfileError",
    "add_times",
    "format_view",
    "run_steps",
    "view_program",
]
