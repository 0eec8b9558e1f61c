"""A tool, held to the design page "behaviour", "Tool", and to the sentences of the seed ``allm-tool``.

* A tool the model may call: serializable data plus an optional runtime :handler
  -> test_a_tool_is_data_and_an_optional_handler
* The struct itself is pure data (name, description, schema, metadata, manual), but :handler may be a function
  -> test_a_dumped_tool_is_pure_data_without_its_handler
* A tool with a fn handler is not safe to persist; persist nil and re-attach at load time
  -> test_a_loaded_tool_gets_its_handler_back, test_a_handler_that_is_attached_is_validated
* or use a {Module, :function} tuple (here: refused, since loading a tool never imports code)
  -> test_a_handler_given_as_text_is_a_type_error
* Setting manual: true declares this tool will not be auto-executed
  -> test_manual_is_carried, tests/test_loop.py
* The orchestrator halts the loop with halted_reason: :manual_tool_calls; the caller resolves the result
  -> tests/test_loop.py::test_a_manual_tool_is_surfaced_and_not_run
* Default: false; the flag is silent under mode: :manual
  -> test_manual_is_false_by_default, tests/test_loop.py
* Tool handler, called with parsed arguments (arity 1) or with arguments plus the call's context (arity 2)
  -> test_a_handler_takes_arguments_or_arguments_and_context, test_a_handler_of_any_other_arity_is_a_type_error
* The context carries :context, :session_id, :tool_call, :engine, :request_id; nil where there is none
  -> test_what_is_missing_in_a_context_is_none
* Custom keys in :context are passed through unchanged
  -> test_the_hosts_own_context_is_passed_through_unchanged
* The arity-1 form is preferred; arity-2 is detected (here: when the tool is made, not at dispatch)
  -> test_optional_parameters_do_not_count, test_a_handler_takes_arguments_or_arguments_and_context
* Legal returns from a tool handler: ok, error, ask_user with and without options, halt
  -> test_the_legal_answers_of_a_function_pass_through_unchanged, tests/test_results.py
* schema is a map
  -> test_a_schema_is_a_map_of_plain_data
* :name, :description and :schema are required; omitting any raises
  -> test_name_description_and_schema_are_required
* :handler is optional, a tool may be declared without one
  -> test_a_tool_is_data_and_an_optional_handler, tests/test_loop.py::test_a_manual_tool_needs_no_handler
* :manual is optional and defaults to false
  -> test_manual_is_false_by_default
* It MUST be a boolean; passing :manual with a non-boolean value, including nil, raises
  -> test_manual_is_strictly_a_bool
"""

from __future__ import annotations

import copy
import functools
import json
import pickle
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from rho_wasm.calls import ToolContext
from rho_wasm.errors import ToolError
from rho_wasm.results import AskUser, Failed, Halt, Ok
from rho_wasm.tools import Tool, tool
from tests.helpers import OBJECT, context, make


def one(arguments: Any) -> Any:
    return Ok(arguments)


def two(arguments: Any, context: Any) -> Any:
    return Ok([arguments, context])


class Handlers:
    def one(self, arguments: Any) -> Any:
        return Ok(arguments)

    async def two(self, arguments: Any, context: Any) -> Any:
        return Ok(arguments)

    def __call__(self, arguments: Any) -> Any:
        return Ok(arguments)


class AsyncCallable:
    async def __call__(self, arguments: Any) -> Any:
        return Ok(arguments)


# -- the data


def test_a_tool_is_data_and_an_optional_handler() -> None:
    weather = Tool(name="weather", description="weather by city", input_schema=OBJECT)
    assert (weather.name, weather.handler, weather.manual, weather.metadata) == ("weather", None, False, {})


@pytest.mark.parametrize("missing", ["name", "description", "input_schema"])
def test_name_description_and_schema_are_required(missing: str) -> None:
    fields: dict[str, Any] = {"name": "a", "description": "", "input_schema": OBJECT}
    del fields[missing]
    with pytest.raises(ValidationError, match=missing):
        Tool(**fields)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="schema_"):
        make(schema_=1)


def test_manual_is_false_by_default() -> None:
    assert make().manual is False


def test_manual_is_carried() -> None:
    assert make(manual=True).manual is True
    assert Tool.model_validate_json(make(manual=True).model_dump_json()).manual is True


@pytest.mark.parametrize("flag", [None, 0, 1, "true", "", []])
def test_manual_is_strictly_a_bool(flag: Any) -> None:
    with pytest.raises(ValidationError, match="manual"):
        make(manual=flag)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "ä", "a" * 65, "a\n", None, 1])
def test_a_name_is_what_every_model_api_accepts(name: Any) -> None:
    with pytest.raises(ValidationError, match="A-Z a-z 0-9"):
        make(name=name)
    assert make(name="a-B_9" + "x" * 59).name


@pytest.mark.parametrize("schema", [None, [], "{}", {"a": object()}, {1: "a"}, {"a": {("b",): 1}}])
def test_a_schema_is_a_map_of_plain_data(schema: Any) -> None:
    with pytest.raises(ValidationError, match="input_schema"):
        Tool(name="a", description="", input_schema=schema)


@pytest.mark.parametrize("timeout", [0, -1, 1.5, "1", True])
def test_a_timeout_is_a_positive_whole_number_of_milliseconds(timeout: Any) -> None:
    with pytest.raises(ValidationError, match="timeout_ms"):
        make(timeout_ms=timeout)


def test_an_error_shows_nothing_of_what_was_given() -> None:
    with pytest.raises(ValidationError) as caught:
        make(manual="secret", description=b"secret")
    assert "secret" not in str(caught.value)


def test_a_tool_does_not_change() -> None:
    given: dict[str, Any] = {"properties": {"a": {"enum": [1]}}}
    made = Tool(name="a", description="", input_schema=given, metadata={"x": [1]})
    given["properties"]["a"]["enum"].append(2)
    assert made.input_schema == {"properties": {"a": {"enum": [1]}}}
    with pytest.raises(ValidationError, match="frozen"):
        made.name = "b"  # type: ignore[misc]
    changes: list[Callable[[], Any]] = [
        lambda: made.input_schema.update(a=1),  # type: ignore[attr-defined]
        lambda: made.input_schema["properties"].pop("a"),
        lambda: made.input_schema["properties"]["a"]["enum"].append(2),
        lambda: made.metadata["x"].sort(),
    ]
    for change in changes:
        with pytest.raises(TypeError, match="read-only"):
            change()


# -- dumping and loading


def test_a_dumped_tool_is_pure_data_without_its_handler() -> None:
    made = make(one, name="a", input_schema={"properties": {"x": {"enum": [1, None]}}}, read_only=True)
    dumped = json.loads(made.model_dump_json())
    assert "handler" not in dumped
    assert dumped["input_schema"] == {"properties": {"x": {"enum": [1, None]}}}
    assert type(made.model_dump()["input_schema"]["properties"]) is dict
    assert "handler" not in repr(made)


def test_a_loaded_tool_gets_its_handler_back() -> None:
    made = make(one, name="a", metadata={"k": [1]}, timeout_ms=5)
    loaded = Tool.model_validate_json(made.model_dump_json())
    assert loaded.handler is None
    assert loaded.with_handler(one) == made
    assert loaded.handler is None


def test_a_handler_that_is_attached_is_validated() -> None:
    for handler in (lambda: None, 3, "os:system"):
        with pytest.raises(TypeError):
            make().with_handler(handler)  # type: ignore[arg-type]


def test_a_handler_given_as_text_is_a_type_error() -> None:
    for text in ("os:system", "module:function", ""):
        with pytest.raises(TypeError, match="imports no code"):
            make(text)  # type: ignore[arg-type]


def test_replace_keeps_what_is_not_named_and_validates() -> None:
    made = make(one, metadata={"a": 1})
    assert made.invoke({}, context()) == Ok({})
    assert made.is_async is False
    renamed = made.replace(name="b", untrusted=True)
    assert (renamed.name, renamed.untrusted, renamed.handler, renamed.metadata) == ("b", True, one, {"a": 1})
    assert renamed.with_handler(two).takes_context
    with pytest.raises(ValidationError):
        made.replace(manual=None)


def test_a_schema_can_be_copied_and_pickled() -> None:
    schema = make(input_schema={"a": [{}]}).input_schema
    assert copy.deepcopy(schema) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    with pytest.raises(TypeError, match="read-only"):
        pickle.loads(pickle.dumps(schema))["a"].append(1)


# -- handlers


@pytest.mark.parametrize(
    ("handler", "takes_context"),
    [
        (one, False),
        (two, True),
        (lambda a: Ok(a), False),
        (lambda a, b: Ok(a), True),
        (Handlers().one, False),
        (Handlers().two, True),
        (Handlers(), False),
        (functools.partial(two, {}), False),
        (functools.partial(lambda x, a, b: Ok(x), 1), True),
    ],
)
def test_a_handler_takes_arguments_or_arguments_and_context(handler: Any, takes_context: bool) -> None:
    assert make(handler).takes_context is takes_context


def test_the_handler_gets_the_very_arguments_and_context() -> None:
    arguments, given = {"x": 1}, context()
    assert make(one).invoke(arguments, given).value is arguments
    assert make(two).invoke(arguments, given).value[1] is given


def test_optional_parameters_do_not_count() -> None:
    assert make(lambda a, b=1, *rest, c=2, **more: Ok(a)).takes_context is False


@pytest.mark.parametrize(
    "handler",
    [
        lambda: None,
        lambda a, b, c: None,
        lambda *all: None,
        lambda a=1: None,
        lambda a, *, b: None,
        lambda **all: None,
        Handlers.two,
        functools.partial(one, 1),
    ],
)
def test_a_handler_of_any_other_arity_is_a_type_error(handler: Any) -> None:
    with pytest.raises(TypeError, match="handler"):
        make(handler)


@pytest.mark.parametrize("handler", [3, [], {}, object(), b"os:system", ("os", "system")])
def test_a_handler_that_cannot_be_called_is_a_type_error(handler: Any) -> None:
    with pytest.raises(TypeError, match="is a callable"):
        make(handler)


@pytest.mark.parametrize(
    ("handler", "is_async"),
    [(one, False), (Handlers().two, True), (AsyncCallable(), True), (functools.partial(Handlers().two, {}), True)],
)
def test_async_handlers_are_told_apart(handler: Any, is_async: bool) -> None:
    assert make(handler).is_async is is_async


def test_what_is_missing_in_a_context_is_none() -> None:
    bare = ToolContext(call=context().call)
    assert (bare.context, bare.session_id, bare.request_id, bare.registry, bare.model) == (None,) * 5
    assert bare.values == {}


def test_the_hosts_own_context_is_passed_through_unchanged() -> None:
    own = object()
    given = context(context=own, session_id="s", request_id="r")
    seen = make(two).invoke({}, given).value[1]
    assert (seen.context, seen.session_id, seen.request_id, seen.call) == (own, "s", "r", given.call)


# -- @tool


def test_a_function_becomes_a_tool() -> None:
    @tool(read_only=True, timeout_ms=7)
    def invoice(number: str, days: int = 1, *, kind: Literal["a", "b"] | None = None) -> dict[str, str]:
        """Look up one invoice.

        By its number.
        """
        return {"number": number, "days": str(days)}

    assert (invoice.name, invoice.description) == ("invoice", "Look up one invoice.\n\nBy its number.")
    assert (invoice.read_only, invoice.timeout_ms, invoice.manual) == (True, 7, False)
    assert invoice.input_schema["required"] == ["number"]
    assert invoice.input_schema["properties"]["days"] == {"default": 1, "type": "integer"}
    assert invoice.input_schema["additionalProperties"] is False
    assert "title" not in json.dumps(invoice.input_schema)
    assert invoice.invoke({"number": "7"}, context()) == Ok({"number": "7", "days": "1"})


def test_name_and_description_can_be_given() -> None:
    def function() -> None:
        """Its own."""

    named = tool(name="other", description="Given.")(function)
    assert (named.name, named.description) == ("other", "Given.")
    assert tool(function).input_schema == {"additionalProperties": False, "properties": {}, "type": "object"}


def test_a_parameter_called_title_keeps_its_place() -> None:
    @tool
    def book(title: str, meta: Annotated[str, Field(description="d")]) -> None: ...

    assert book.input_schema["properties"] == {
        "title": {"type": "string"},
        "meta": {"type": "string", "description": "d"},
    }


def test_the_context_comes_through_the_parameter_annotated_so() -> None:
    @tool
    def who(ctx: ToolContext, name: str) -> list[Any]:
        return [ctx.session_id, name]

    @tool
    def maybe(name: str, ctx: ToolContext | None = None) -> Any:
        return ctx

    assert list(who.input_schema["properties"]) == ["name"]
    assert who.invoke({"name": "a"}, context(session_id="s")) == Ok(["s", "a"])
    given = context()
    assert list(maybe.input_schema["properties"]) == ["name"]
    assert maybe.invoke({"name": "a"}, given).value is given


@pytest.mark.parametrize(
    "answer", [Ok(1), Failed("no"), AskUser("which?"), AskUser("which?", {"a": 1}), Halt("done", 2)]
)
def test_the_legal_answers_of_a_function_pass_through_unchanged(answer: Any) -> None:
    @tool
    def function() -> Any:
        return answer

    assert function.invoke({}, context()) is answer


@pytest.mark.anyio
async def test_an_async_function_becomes_an_async_tool() -> None:
    @tool
    async def double(n: int) -> int:
        return 2 * n

    assert double.is_async
    assert await double.invoke({"n": 2}, context()) == Ok(4)


@pytest.mark.parametrize("arguments", [{}, {"n": "x"}, {"n": 1, "m": 2}, {"n": None}])
def test_arguments_that_do_not_fit_the_function_are_refused_without_showing_them(arguments: Mapping[str, Any]) -> None:
    @tool
    def double(n: int) -> int:
        raise AssertionError("ran")

    with pytest.raises(ToolError) as caught:
        double.invoke(arguments, context())
    assert caught.value.reason == "invalid_arguments"
    assert caught.value.__cause__ is None


def test_a_function_that_cannot_be_called_by_name_is_a_type_error() -> None:
    def bare(a) -> None: ...  # type: ignore[no-untyped-def]
    def many(*a: int) -> None: ...
    def more(**a: int) -> None: ...
    def placed(a: int, /) -> None: ...

    for function in (bare, many, more, placed):
        with pytest.raises(TypeError, match=function.__name__):
            tool(function)
