"""The stable codes of every diagnostic.

A code never changes its meaning, and a retired code is not used again.  A test checks that
each has an entry with an example in ``docs/reference/diagnostics``.
"""

from enum import StrEnum

from wrapperir.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticError,
    LinePath,
    Note,
    Position,
)


class Code(StrEnum):
    """``WIR`` and three digits; the first digit is the part that reports it.

    The comment beside a code says what the code reports.
    """

    # 0: reading text and JSON
    BAD_HEADER = "WIR001"  # A file does not begin with the name and version of the format
    UNKNOWN_VERSION = "WIR002"  # A file has a schema version unknown to this release
    UNEXPECTED = "WIR003"  # A line has a token that the grammar does not allow there
    UNKNOWN_STATEMENT = "WIR004"  # A line begins with a word that starts no statement
    UNKNOWN_WORD = "WIR005"  # A word is not one of those allowed there, such as a dtype
    UNCLOSED_BLOCK = "WIR006"  # The file ends inside a block, or a program is missing
    MISPLACED_STATEMENT = "WIR007"  # A statement is out of order, given twice or missing
    BAD_STRING = "WIR008"  # A string is not closed, has a wrong escape or cannot be encoded
    BAD_NUMBER = "WIR009"  # A number is too long or too large
    BAD_NAME = "WIR010"  # A name is not an identifier, is too long or is reserved
    TOO_DEEP = "WIR011"  # Expressions, lists, types or blocks nest too deep; rank too high
    BAD_ARITY = "WIR012"  # A function or operator is given the wrong number of operands
    BAD_COUNT = "WIR013"  # A line defines more or fewer names than it gives types
    BAD_ENCODING = "WIR014"  # A file is not UTF-8 text with lines ended by a line feed
    UNWRITABLE_VALUE = "WIR015"  # A program holds a value that text cannot spell
    BAD_JSON = "WIR020"  # A JSON file is not JSON
    UNKNOWN_FIELD = "WIR021"  # A JSON object has a field that its kind does not have
    MISSING_FIELD = "WIR022"  # A JSON object lacks a field
    WRONG_TYPE = "WIR023"  # A JSON value does not have the type of its field
    DUPLICATE_KEY = "WIR024"  # A JSON object has a key twice
    # 1: names and structure
    MALFORMED = "WIR100"  # A field holds something that its declared type does not allow
    INVALID_IDENTIFIER = "WIR101"  # A name is not an identifier
    REDEFINITION = "WIR102"  # A value or kernel is defined twice
    UNDEFINED_NAME = "WIR103"  # A value is used that nothing defines
    USE_BEFORE_DEFINITION = "WIR104"  # A value is used before the line that defines it
    SYMBOL_REDEFINITION = "WIR105"  # A symbol is defined twice
    UNKNOWN_SYMBOL = "WIR106"  # A symbol is used that nothing defines
    SYMBOL_BEFORE_DEFINITION = "WIR107"  # A symbol is used before the line that defines it
    RESERVED_SYMBOL = "WIR108"  # A symbol has the name of a literal
    EMPTY_RANGE = "WIR109"  # A symbol's lower bound is above its upper bound
    OUTSIDE_RANGE = "WIR110"  # A symbol's value is always outside its range
    EXPRESSION_DEPTH = "WIR111"  # An expression is nested too deep
    OPERATION_ARITY = "WIR112"  # An operation has the wrong number of arguments
    DUPLICATE_NAME = "WIR113"  # Parameters, keywords or bindings have a name twice
    INVALID_RESULT = "WIR114"  # An output or block result is not a name, scalar or none
    SYMBOL_SOURCE = "WIR115"  # A symbol is read from something that does not have it
    UNKNOWN_ORIGIN = "WIR116"  # A line's origin, or a place, is not listed (a warning)
    DUPLICATE_ORIGIN = "WIR117"  # Two origins have one name (a warning)
    UNKNOWN_GROUP = "WIR118"  # A collective names a group that the program does not declare
    INVALID_GROUP = "WIR119"  # A group is declared twice, or has no such size or rank
    # 2: lifetimes and aliases
    USE_AFTER_FREE = "WIR201"  # A value is used after its name was dropped
    DOUBLE_FREE = "WIR202"  # A name is freed that was dropped before
    LEAK = "WIR203"  # A name is never freed, reused or returned
    CONSTANT_FREED = "WIR204"  # A constant is freed
    PARAMETER_DROPPED = "WIR205"  # A block parameter is freed or reused
    PROGRAM_WORKSPACE_DROPPED = "WIR206"  # A program workspace is freed, reused, returned
    REUSE_OF_BORROWED = "WIR207"  # Memory of an input or constant is reused
    FORBIDDEN_WRITE = "WIR208"  # A line writes a value that must not be written
    PARTIAL_OVERLAP = "WIR209"  # A kernel writes an argument that partly overlaps another
    UNINITIALIZED_READ = "WIR210"  # A line reads memory that nothing wrote
    REUSE_TOO_SMALL = "WIR211"  # A reuse needs more memory than its source has
    REUSE_INCOMPATIBLE = "WIR212"  # A reuse needs another kind of memory than its source
    PLACEMENT_OVERLAP = "WIR213"  # A placement overlaps another that lives in the same pool
    UNORDERED_USE = "WIR214"  # Two streams use memory without an order, and one writes
    UNORDERED_REUSE = "WIR215"  # Memory is reused while another stream may still use it
    INVALID_DONATION = "WIR216"  # A donated input is mutated, or is not a tensor
    USED_BEFORE_WAIT = "WIR217"  # A tensor is used while a collective may still write it
    WRITTEN_IN_FLIGHT = "WIR218"  # A tensor is written while a collective may still read it
    DROPPED_IN_FLIGHT = "WIR219"  # A name is freed or reused before its collective's wait
    NEVER_WAITED = "WIR220"  # Nothing waits for a collective in the block that starts it
    WAITED_TWICE = "WIR221"  # Two lines wait for one collective
    # 3: types and layouts
    RANK_MISMATCH = "WIR301"  # A size and a stride have different numbers of dimensions
    NEGATIVE_EXTENT = "WIR302"  # A size, stride or offset is negative
    INVALID_ALIGNMENT = "WIR303"  # An alignment is not a power of two
    OUT_OF_BOUNDS = "WIR304"  # A view reaches past its storage
    NOT_A_TENSOR = "WIR305"  # A line needs a tensor and is given another kind of value
    VIEW_ELSEWHERE = "WIR306"  # A view's device, space or pinning is not its storage's
    NOT_AN_INTEGER = "WIR307"  # A size, stride or offset is not a whole number
    TOO_LARGE = "WIR308"  # A tensor spans more bytes than an address can count
    INVALID_PLACEMENT = "WIR309"  # A device, memory space, layout or stream is malformed
    FALSE_ASSERT = "WIR310"  # An assert contradicts the declared type
    NOT_ONE_ELEMENT = "WIR311"  # A line needs a tensor of one element
    OUTSIDE_POOL = "WIR312"  # A placement reaches past its pool
    PLACEMENT_ALIGNMENT = "WIR313"  # A pool and an offset do not align a placement
    PLACEMENT_INCOMPATIBLE = "WIR314"  # A placement and its pool have different memory
    NOT_A_POOL = "WIR315"  # A placement is in a value that is not a pool
    UNPLACEABLE = "WIR316"  # A placement is of a kind that is never placed
    MISPLACED_RESOURCE = "WIR317"  # A pool or an event is where only other values can be
    STORAGE_OF_PLACED = "WIR318"  # An operator accesses the storage of a placement
    # 4: kernels and operators
    UNDEFINED_KERNEL = "WIR401"  # A call names a kernel that is not defined
    CALL_ARITY = "WIR402"  # A kernel call has too few or too many arguments
    ARGUMENT_DTYPE = "WIR403"  # A kernel argument and its parameter have different dtypes
    ARGUMENT_KIND = "WIR404"  # A kernel gets a scalar for a buffer, or the reverse
    DEVICE_MISMATCH = "WIR405"  # A kernel argument is on another device than the call
    UNDEFINED_CHOICE = "WIR406"  # A multi-kernel's choice is not a kernel defined before it
    CHOICE_POSITIONS = "WIR407"  # A choice's positions do not fit its kernel
    CHOICE_MISMATCH = "WIR408"  # A choice's parameter differs from the multi-kernel's
    CHOICE_INDEX = "WIR409"  # A multi-kernel selects a choice that it does not have
    GRID_RANK = "WIR410"  # A grid has the wrong number of dimensions for its language
    GRID_NAME = "WIR411"  # A grid mentions a name that has no value at launch
    UNBOUND_CONSTEXPR = "WIR412"  # A constexpr parameter has no value in a config
    UNKNOWN_CONSTANT = "WIR413"  # A constant is bound to no constexpr parameter
    NO_CHOICES = "WIR414"  # A multi-kernel has no choices
    METADATA_KEY = "WIR415"  # A metadata key has no namespace
    INVALID_OPERATOR = "WIR416"  # An operator's name is malformed
    NOT_AN_ARGUMENT = "WIR417"  # A call writes or aliases a value that is not an argument
    OUT_NOT_WRITTEN = "WIR418"  # An ``out`` argument is not among the writes
    RESULT_WITHOUT_TYPE = "WIR419"  # A call has a result or its type, not both
    NOT_A_TUPLE = "WIR420"  # A ``multi_output`` takes from a value that is not a tuple
    TUPLE_INDEX = "WIR421"  # A ``multi_output`` index is out of range
    TUPLE_TYPE = "WIR422"  # A ``multi_output`` type differs from the tuple's element
    NOT_AN_EVENT = "WIR423"  # A wait is for a value that is not an event
    EVENT_ELSEWHERE = "WIR424"  # A wait is for an event of another device kind
    INVALID_DESCRIPTOR = "WIR425"  # A kernel cannot have such a descriptor parameter
    DESCRIPTOR_ARGUMENT = "WIR426"  # A tensor does not fit a descriptor parameter
    SIZE_OF_NOTHING = "WIR427"  # A multi-kernel's size names no dimension of a tensor
    SIZE_DIMENSION = "WIR428"  # A multi-kernel's size is of a dimension that is missing
    INVALID_HINT = "WIR429"  # A multi-kernel has no hints, or hints with other sizes
    INVALID_TREE = "WIR430"  # A computed choice is not a decision tree over what calls give
    RECORDED_TIMES = "WIR431"  # A recorded choice does not have a time for each choice
    REPEATED_CHOICE = "WIR432"  # A multi-kernel has the same choice twice
    WORKSPACE_NEED = "WIR433"  # A choice's workspace is not written, or has no count
    WORKSPACE_MODES = "WIR434"  # Two choices need a workspace in incompatible modes
    WORKSPACE_ARGUMENT = "WIR435"  # A call's workspace is missing or of another kind
    SAME_MULTI_KERNEL = "WIR436"  # Two multi-kernels have equal choices (a warning)
    UNREGISTERED_OPERATOR = "WIR440"  # The installed PyTorch has no such operator
    OPERATOR_ARGUMENTS = "WIR441"  # An operator does not take the arguments of a call
    OPERATOR_RESULT = "WIR442"  # An operator returns or writes another type than declared
    UNDECLARED_WRITE = "WIR443"  # An operator writes an argument that ``writes`` lacks
    COLLECTIVE_OPERANDS = "WIR444"  # A collective lacks an operand, or has one too many
    COLLECTIVE_SHAPE = "WIR445"  # Tensors do not fit a collective and the group's size
    NOT_A_WORK = "WIR446"  # A wait is for something else than a collective of its kind
    RANK_GROUPS = "WIR450"  # The groups that the programs of several ranks declare differ
    RANKS_DIFFER = "WIR451"  # Two ranks of a group start different collectives
    RANKS_DEADLOCK = "WIR452"  # A rank waits for a collective that another never starts
    # 5: control flow
    OUTER_NAME = "WIR501"  # A block uses a name of the program around it
    BLOCK_PARAMETERS = "WIR502"  # A block's parameters do not fit the operands
    BLOCK_RESULTS = "WIR503"  # A block's results do not fit the line's
    INVALID_PREDICATE = "WIR504"  # A predicate is not a condition or one bool element
    BORROWED_RESULT = "WIR505"  # A block returns memory that it does not own
    CARRIED_TYPES = "WIR506"  # A loop's results do not fit what it carries
    NESTING = "WIR507"  # Blocks are nested too deep
    NESTED_STREAM = "WIR508"  # A block launches on another stream than 0
    GRAPH_VALUE = "WIR509"  # A graph region takes or returns what a replay cannot
    GRAPH_DEVICE = "WIR510"  # A graph region has work or a tensor on another device
    GRAPH_HOST_READ = "WIR511"  # The host reads a value or an address in a graph region
    GRAPH_LINE = "WIR512"  # A graph region has a line that no device can record
    GRAPH_OPERATOR = "WIR513"  # A graph region calls an operator that cannot be recorded
    GRAPH_STREAM = "WIR514"  # A stream is not forked and joined in a graph region
    # 6: frontends and lowering
    UNSUPPORTED_FUNCTION = "WIR600"  # A symbolic size uses a function that expressions lack
    UNSUPPORTED_SYMBOL_NAME = "WIR601"  # A symbol's name is not an identifier
    UNSUPPORTED_OPERATOR = "WIR602"  # A graph calls something that no line expresses
    UNSUPPORTED_ARGUMENT = "WIR603"  # An operator has a value that no argument expresses
    UNSUPPORTED_VALUE = "WIR604"  # A node of a graph has a value that no type expresses
    UNSUPPORTED_SIGNATURE = "WIR605"  # A signature has a part that programs do not have
    MISSING_EXAMPLE = "WIR606"  # A node of a graph does not say what its value looks like
    UNKNOWN_KERNEL = "WIR607"  # A graph calls a kernel that has no form in a program
    INDUCTOR_TEXT = "WIR650"  # Inductor writes target text that no line expresses
    INDUCTOR_LINE = "WIR651"  # A construct of Inductor's has no form in a program
    INDUCTOR_OPERATOR = "WIR652"  # A kernel of Inductor is not a registered operator
    INDUCTOR_VALUE = "WIR653"  # A value or element type has no form in a program
    INDUCTOR_KERNEL = "WIR654"  # A kernel's definition is of an unknown form
    COMPILATION_FAILED = "WIR655"  # PyTorch or the lowering raised an error of its own
    UNSUPPORTED_RELEASE = "WIR656"  # PyTorch is older or newer than the adapter supports
    UNKNOWN_OPTION = "WIR660"  # A backend option of torch.compile is unknown
    INVALID_OPTION = "WIR661"  # A backend option of torch.compile has an invalid value
    LOOP_NAME = "WIR670"  # A loop nest uses a name that nothing defines there
    LOOP_REDEFINITION = "WIR671"  # A loop nest defines a name twice
    LOOP_DTYPE = "WIR672"  # Dtypes of an instruction do not agree
    LOOP_ARITY = "WIR673"  # An instruction has too few or too many operands or indices
    LOOP_PLACE = "WIR674"  # A reduction or scan is outside of an inner loop
    LOOP_BUFFER = "WIR675"  # A nest, call or output names a buffer that is not there
    LOOP_BOUNDS = "WIR676"  # An index certainly leaves its buffer
    LOOP_STORED_TWICE = "WIR677"  # Two points certainly store to one element
    LOOP_LAUNCH = "WIR678"  # A launch does not fit its kernel, or a kernel its nest
    LOOP_ORDER = "WIR679"  # A buffer is read before the first item that writes it
    # 7: passes, plugins and emitters
    UNKNOWN_PASS = "WIR740"  # A pass is asked for that does not exist
    BAD_PIPELINE = "WIR741"  # The text of a pipeline is malformed, or it contains itself
    WRONG_PASS_ARGUMENT = "WIR742"  # A pass is given an argument that it does not take
    PASS_FAILED = "WIR743"  # A pass raised an error, or returned no program
    DUPLICATE_PASS = "WIR744"  # Two plugins provide passes of the same name
    UNKNOWN_EMITTER = "WIR700"  # No installed plugin provides an emitter of that name
    DUPLICATE_EMITTER = "WIR701"  # Two plugins provide emitters of the same name
    UNSUPPORTED_LINE = "WIR702"  # The emitter cannot express a line kind
    UNSUPPORTED_LANGUAGE = "WIR703"  # The emitter cannot launch kernels of a language
    UNSUPPORTED_DEVICE = "WIR704"  # The emitter has no support for a device kind
    UNSUPPORTED_FEATURE = "WIR705"  # The emitter lacks a feature, such as streams
    NAME_NOT_EMITTABLE = "WIR706"  # A name of the program is not an identifier
    MISSING_CONSTANT = "WIR707"  # No tensor was given for a constant of the program
    CONSTANT_MISMATCH = "WIR708"  # A tensor does not have the type of its constant
    KERNEL_BUILD_FAILED = "WIR709"  # A kernel does not compile, or an operator is missing
    INVALID_ARTIFACT = "WIR710"  # A directory or package has no artifact or a changed one
    EMITTER_FAILED = "WIR711"  # An emitter raised an error, or returned no artifact
    UNREGISTERED_KERNEL = "WIR712"  # A graph calls a kernel unknown to this process
    GRAPH_COMPILER_FAILED = "WIR713"  # A graph compiler raised an error or made nothing
    INVALID_TUNING = "WIR714"  # A record of tuning is malformed or of another version
    # 8: running a program
    RUN_INPUT_COUNT = "WIR800"  # A run is given too few or too many inputs
    RUN_INPUT_MISMATCH = "WIR801"  # An input is not what its type declares
    RUN_MISSING_CONSTANT = "WIR802"  # A run is not given a constant that the program names
    RUN_CONSTANT_MISMATCH = "WIR803"  # A constant is not what its type declares
    RUN_UNDEFINED_NAME = "WIR804"  # A line uses a name that nothing defined
    RUN_REDEFINED_NAME = "WIR805"  # A line defines a name that is already taken
    RUN_USE_AFTER_FREE = "WIR806"  # A line uses a name that was freed or reused
    RUN_DOUBLE_FREE = "WIR807"  # A name is dropped a second time
    RUN_BORROWED = "WIR808"  # A line drops or returns memory that the block does not own
    RUN_LEAK = "WIR809"  # A block ends with a name that it neither dropped nor returned
    RUN_UNINITIALIZED_READ = "WIR810"  # Bytes are read that nothing wrote
    RUN_VIEW_OUT_OF_BOUNDS = "WIR811"  # A view does not lie within its storage
    RUN_ACCESS_OUT_OF_BOUNDS = "WIR812"  # A kernel touches memory outside its arguments
    RUN_OVERLAP = "WIR813"  # A kernel writes an argument that partly overlaps another
    RUN_READ_ONLY = "WIR814"  # A line writes memory that it may not write
    RUN_REUSE_MISMATCH = "WIR815"  # A reuse does not fit the storage that it takes over
    RUN_EVALUATION = "WIR816"  # An expression has no value, or not one that fits its place
    RUN_SYMBOL_RANGE = "WIR817"  # A symbol's value is outside its range
    RUN_ASSERT_SIZE_STRIDE = "WIR818"  # A tensor's size or stride differs from an assert
    RUN_ASSERT_ALIGNMENT = "WIR819"  # A tensor's address is not aligned as asserted
    RUN_ASSERT_SCALAR = "WIR820"  # The condition of an assert is zero
    RUN_ASSERT_NOT_NAN = "WIR821"  # A tensor that an assert names holds NaN or infinity
    RUN_UNKNOWN_OPERATOR = "WIR822"  # An operator is not registered with PyTorch
    RUN_OPERATOR_FAILED = "WIR823"  # An operator raised an error
    RUN_RESULT_MISMATCH = "WIR824"  # A result is not what its type declares
    RUN_UNDECLARED_ALIAS = "WIR825"  # A result aliases an argument not in ``aliases``
    RUN_UNDECLARED_WRITE = "WIR826"  # An operator writes an argument that ``writes`` lacks
    RUN_UNDEFINED_KERNEL = "WIR827"  # A call names a kernel that is not defined
    RUN_KERNEL_ARGUMENTS = "WIR828"  # The arguments of a kernel call do not fit the kernel
    RUN_KERNEL_BUILD = "WIR829"  # A kernel's source does not build
    RUN_KERNEL_FAILED = "WIR830"  # A kernel raised an error while it ran
    RUN_OPAQUE_KERNEL = "WIR831"  # A kernel's language cannot be run
    RUN_WORKSPACE_NOT_ZERO = "WIR832"  # A ``zero_per_program`` workspace ends not zero
    RUN_DEVICE = "WIR833"  # A program needs a device that the interpreter does not run on
    RUN_VALUE_KIND = "WIR834"  # A line needs another kind of value, such as a tensor
    RUN_BLOCK = "WIR835"  # A block's parameters or results do not fit the line that runs it
    RUN_ALLOCATION = "WIR836"  # Memory of the asked size cannot be had
    RUN_NESTING = "WIR837"  # Expressions or blocks are nested too deep
    RUN_PLACEMENT_OUT_OF_BOUNDS = "WIR838"  # A placement does not lie within its pool
    RUN_PLACEMENT_OVERLAP = "WIR839"  # A placement shares bytes with one that lives
    RUN_PLACEMENT_MISMATCH = "WIR840"  # A placement's kind or alignment is not its pool's
    RUN_RACE = "WIR841"  # Two streams use memory in an order that nothing sets
    RUN_MEMORY_PLAN = "WIR842"  # Memory in emitted code is not what the program says
    RUN_POINT_RACE = "WIR843"  # A point of a loop nest uses an element that another writes
    RUN_GROUP = "WIR844"  # A collective needs ranks of its group that do not run
    RUN_COLLECTIVE = "WIR845"  # Tensors, splits or peer of a collective do not fit
    RUN_IN_FLIGHT = "WIR846"  # A tensor is used or dropped that a collective still needs
    RUN_WORK = "WIR847"  # A collective is waited for twice or never
    RUN_RANKS_DIFFER = "WIR848"  # Two ranks of a group start different collectives
    RUN_DEADLOCK = "WIR849"  # Ranks wait for collectives that the others never start
    # 9: command line and files
    TARGET_SPELLING = "WIR900"  # A target is neither ``FILE.py:NAME`` nor a ``.pt2`` file
    TARGET_FAILED = "WIR901"  # The user's file raised an error when run or traced
    TARGET_MISSING = "WIR902"  # The user's file does not define the function or module
    EXAMPLE_INPUTS = "WIR903"  # The user's file has no example inputs of a known form
    VALUES_FILE = "WIR904"  # A file of inputs or constants lacks values of the program
    UNDRAWABLE_INPUT = "WIR905"  # A random input cannot be drawn
    EMITTED_CODE_FAILED = "WIR906"  # Emitted code raised an error while it ran
    NOTHING_TO_COMPILE = "WIR907"  # Dynamo found nothing to compile in the user's function
    NO_PROGRAM = "WIR908"  # A directory that is given as a program holds none, or several
    MISSING_TORCH = "WIR909"  # PyTorch is needed and is not installed
    UNKNOWN_CHECK = "WIR910"  # A feature, case or device to check does not exist
    PLUGIN_NAME = "WIR911"  # A new plugin cannot have its name, or its directory exists
    MISSING_HYPOTHESIS = "WIR912"  # Hypothesis is needed and is not installed
    NOTHING_TO_REDUCE = "WIR913"  # A program to reduce does not show what is looked for
    NOTHING_TO_EXPLAIN = "WIR915"  # A program has no part that a subject names
    RUNS_DIFFER = "WIR914"  # Two runs of a program write other values
    MISSING_PYGLS = "WIR916"  # pygls is needed and is not installed
    ONE_RUN_FAILS = "WIR917"  # One of two runs that are compared fails
    BOTH_RUNS_FAIL = "WIR918"  # Both runs that are compared fail

    def error(
        self,
        message: str,
        *,
        path: LinePath | None = None,
        subject: str | None = None,
        position: Position | None = None,
        notes: tuple[Note, ...] = (),
        hint: str | None = None,
        origin: str | None = None,
    ) -> DiagnosticError:
        """Return the exception for one diagnostic with this code."""
        return DiagnosticError(
            Diagnostic(
                self,
                message,
                path=path,
                subject=subject,
                position=position,
                notes=notes,
                hint=hint,
                origin=origin,
            )
        )
