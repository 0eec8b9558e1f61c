"""The decorator of the guest module: what a function declares, and how it is called. Run by the host's own Python."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from rho_wasm.manifest import Manifest
from rho_wasm.toolchains.engines.python.rho import AskUser, Context, DeclarationError, Failed, Halt, Image, Ok
from rho_wasm.toolchains.engines.python.rho._answers import answer
from rho_wasm.toolchains.engines.python.rho._docs import description, parameters
from rho_wasm.toolchains.engines.python.rho._tools import Registry

PNG = b"\x89PNG\r\n\x1a\n"


def declared(function: Any, **options: Any) -> dict[str, Any]:
    """What the manifest has of ``function``, which a host must take."""
    registry = Registry()
    (registry.tool(**options) if options else registry.tool)(function)
    (found,) = registry.declarations()
    Manifest.from_json({"tools": [found]})
    return found


def search(text: str, limit: int = 10, *, exact: bool = False) -> list[str]:
    """Searches the notes
    for a text.

    It takes its time.

    Args:
        text (str): what to look for,
            in any case
        limit: how many at most
        nobody: is not there

    Returns:
        text: what was found
    """
    return [text] * limit if exact else []


def test_a_function_says_all_by_itself() -> None:
    assert declared(search) == {
        "name": "search",
        "description": "Searches the notes for a text.",
        "input_schema": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "what to look for, in any case"},
                "limit": {"type": "integer", "description": "how many at most", "default": 10},
                "exact": {"type": "boolean", "default": False},
            },
            "additionalProperties": False,
            "required": ["text"],
        },
    }


def test_options_say_the_rest() -> None:
    options = {
        "name": "find-it",
        "description": "Finds.",
        "output_schema": {"type": "array"},
        "timeout_ms": 500,
        "read_only": True,
        "destructive": False,
        "idempotent": True,
        "metadata": {"team": "notes"},
        "examples": [{"arguments": {"text": "a"}, "answer": Failed("nothing")}],
    }
    found = declared(search, **options)
    assert found.pop("input_schema")["required"] == ["text"]
    assert found == {**options, "examples": [{"arguments": {"text": "a"}, "answer": {"error": "nothing"}}]}


def test_a_schema_that_is_given_is_taken_as_it_is() -> None:
    def anything(**given):  # type: ignore[no-untyped-def]
        return given

    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    registry = Registry()
    registry.tool(input_schema=schema)(anything)
    assert registry.declarations()[0]["input_schema"] == schema
    assert registry.tools["anything"].run({"a": 1.0}, {}) == {"a": 1.0}


def test_a_description_of_an_annotation_wins_over_the_docstring() -> None:
    def f(a: Annotated[int, "here"]) -> None:
        """F.

        :param int a: there
        """

    assert declared(f)["input_schema"]["properties"]["a"]["description"] == "here"


def test_the_function_stays_as_it_is() -> None:
    registry = Registry()
    assert registry.tool(search) is search
    assert registry.tool(name="other")(search) is search
    assert list(registry.tools) == ["search", "other"]


def test_a_wrapped_function_is_told_by_what_it_wraps() -> None:
    def twice(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*arguments: Any, **named: Any) -> Any:
            return [function(*arguments, **named)] * 2

        return wrapper

    registry = Registry()

    @registry.tool
    @twice
    def half(n: int) -> float:
        """Halves."""
        return n / 2

    (found,) = registry.declarations()
    assert found["input_schema"]["properties"] == {"n": {"type": "integer"}}
    assert registry.tools["half"].run({"n": 3.0}, {}) == [1.5, 1.5]


@dataclass
class Point:
    x: int
    y: int


def test_arguments_have_the_types_that_were_asked_for() -> None:
    registry = Registry()

    @registry.tool
    def f(point: Point, data: bytes = b"", *, ctx: Context) -> Any:
        return point, data, ctx.call_id, ctx.session_id, ctx.values

    (found,) = registry.declarations()
    assert list(found["input_schema"]["properties"]) == ["point", "data"]
    given = {"point": {"x": 1, "y": 2}, "data": "YQ"}
    context = {"call_id": "c", "values": {"a": 1}, "later": True}
    assert registry.tools["f"].run(given, context) == (Point(1, 2), b"a", "c", None, {"a": 1})


def test_an_argument_that_is_no_value_of_its_type_is_a_failure_and_no_crash() -> None:
    registry = Registry()

    @registry.tool
    def f(data: bytes) -> None:
        raise AssertionError("it is not called")

    registry.declarations()
    failed = registry.tools["f"].run({"data": "?"}, {})
    assert isinstance(failed, Failed)
    assert failed.reason == "data is no base64"


def no_annotation(a):  # type: ignore[no-untyped-def]
    return a


def odd_type(a: int, b: complex) -> None: ...


def positional_only(a: int, /) -> None: ...


def many(*a: int) -> None: ...


def named(**a: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameter", "said"),
    [
        (no_annotation, "a", "the parameter 'a' needs an annotation: the schema is made from it"),
        (odd_type, "b", "the parameter 'b': complex is no type that a schema can be made from"),
        (positional_only, "a", "a tool's arguments come by name, so 'a' cannot be one of them"),
        (many, "a", "a tool's arguments come by name, so 'a' cannot be one of them"),
        (named, "a", "a tool's arguments come by name, so 'a' cannot be one of them"),
    ],
)
def test_a_parameter_that_cannot_be_one_is_named(function: Any, parameter: str, said: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        declared(function)
    assert said in str(caught.value)
    assert (caught.value.function, caught.value.parameter) == (function, parameter)


@pytest.mark.parametrize("name", ["", "a b", "a__b", "x" * 65, "é"])
def test_a_name_that_no_tool_can_have_is_refused(name: Any) -> None:
    with pytest.raises(DeclarationError, match="is no name of a tool"):
        Registry().tool(name=name)(search)


def test_a_name_twice_is_refused() -> None:
    registry = Registry()
    registry.tool(search)
    with pytest.raises(DeclarationError, match="two tools are named search"):
        registry.tool(search)


@pytest.mark.parametrize("what", [None, 3, "text"])
def test_a_tool_is_made_of_a_function(what: Any) -> None:
    with pytest.raises(DeclarationError, match="a tool is made of a function"):
        Registry().tool(name="a")(what)


@pytest.mark.parametrize("example", [{}, {"arguments": {}}, "text", None])
def test_an_example_without_its_parts_is_refused(example: Any) -> None:
    with pytest.raises(DeclarationError, match="an example is a map"):
        Registry().tool(examples=[example])(search)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("capabilities", "kv.get", 'capabilities is a list of names, like ["kv.get"], not str'),
        ("capabilities", b"kv.get", 'capabilities is a list of names, like ["kv.get"], not bytes'),
        ("capabilities", {"kv.get": {}}, 'capabilities is a list of names, like ["kv.get"], not dict'),
        ("capabilities", 3, 'capabilities is a list of names, like ["kv.get"], not int'),
        ("capabilities", ["kv.get", 3], 'capabilities is a list of names, like ["kv.get"], and int is no name'),
        ("capabilities", ["kv.get, kv.put"], "capabilities is a list of names, like [\"kv.get\"], and 'kv.get, kv"),
        ("examples", "text", 'examples is a list, of which each is a map with "arguments" and "answer", not str'),
        ("examples", {"arguments": {}}, 'examples is a list, of which each is a map with "arguments" and "answer", '),
        ("examples", [{"arguments": "n", "answer": {}}], "an example's arguments are a map, not str"),
        ("name", 3, "name is text, not int"),
        ("description", ["a"], "description is text, not list"),
        ("input_schema", "text", "input_schema is a map, not str"),
        ("output_schema", [], "output_schema is a map, not list"),
        ("metadata", "text", "metadata is a map, not str"),
        ("timeout_ms", "500", "timeout_ms is a whole number, not str"),
        ("timeout_ms", True, "timeout_ms is a whole number, not bool"),
        ("read_only", "yes", "read_only is True or False, not str"),
        ("destructive", 1, "destructive is True or False, not int"),
        ("capability", ["kv.get"], "@tool has no option 'capability' (did you mean 'capabilities'?); it has name,"),
        ("readonly", True, "@tool has no option 'readonly' (did you mean 'read_only'?); it has name,"),
        ("wat", 1, "@tool has no option 'wat'; it has name, description, input_schema,"),
    ],
)  # fmt: skip
def test_an_option_of_another_kind_is_refused(option: str, value: Any, said: str) -> None:
    tool: Any = Registry().tool
    with pytest.raises(DeclarationError) as caught:
        tool(**{option: value})
    assert str(caught.value).startswith(said)
    assert caught.value.option == option


def test_lists_may_be_any_that_can_be_gone_through_and_none_says_nothing() -> None:
    registry = Registry()
    registry.tool(capabilities=(name for name in ("a", "b")), examples=iter(()), timeout_ms=None)(search)
    assert registry.tools["search"].capabilities == ("a", "b")
    assert not {"examples", "timeout_ms", "capabilities"} & registry.declarations()[0].keys()


@pytest.mark.parametrize(("given", "what"), [(("text",), "str"), (("a", "b"), "several things")])
def test_what_is_said_of_a_tool_is_said_by_name(given: tuple[str, ...], what: str) -> None:
    tool: Any = Registry().tool
    with pytest.raises(DeclarationError, match=f"is made of a function, not of {what}; what is said of it is named"):
        tool(*given)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, {"ok": None}),
        ({"a": 1}, {"ok": {"a": 1}}),
        (Ok(1), {"ok": 1}),
        (Ok(1, details={"d": 2}), {"ok": 1, "details": {"d": 2}}),
        (
            Ok("see", images=[Image("image/png", PNG)]),
            {"ok": "see", "images": [{"mime_type": "image/png", "data": PNG}]},
        ),
        (Failed("no"), {"error": "no"}),
        (Failed({"why": 1}, details=[1]), {"error": {"why": 1}, "details": [1]}),
        (AskUser("which?"), {"ask_user": "which?"}),
        (AskUser("which?", {"a": 1}), {"ask_user": "which?", "options": {"a": 1}}),
        (Halt("done"), {"halt": "done", "value": None}),
        (Halt("done", 3), {"halt": "done", "value": 3}),
    ],
)
def test_what_a_tool_returns_is_an_answer(result: Any, expected: dict[str, Any]) -> None:
    assert answer(result) == expected


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (AskUser(3), "an AskUser's question is text, not int"),  # type: ignore[arg-type]
        (Halt(None), "a Halt's reason is text, not NoneType"),  # type: ignore[arg-type]
        (Ok(1, images=[b"x"]), "images are Image(mime_type, data), not bytes"),  # type: ignore[list-item]
        (Ok(1, images=5), "an Ok's images are a list of Image(mime_type, data), not int"),  # type: ignore[arg-type]
        (Ok(1, images="x.png"), "an Ok's images are a list of Image(mime_type, data), not str"),  # type: ignore[arg-type]
        (
            Ok(1, images=Image("image/png", PNG)),  # type: ignore[arg-type]
            "an Ok's images are a list of Image(mime_type, data), not Image",
        ),
    ],
)
def test_an_answer_of_the_wrong_kind_is_named(result: Any, said: str) -> None:
    with pytest.raises(TypeError, match=r"is text|images are") as caught:
        answer(result)
    assert str(caught.value) == said


def test_an_image_is_of_bytes() -> None:
    for data in ("text", 5):
        with pytest.raises(TypeError, match=f"an Image's data is bytes, not {type(data).__name__}"):
            Image("image/png", data)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="an Image's MIME type is text, not int"):
        Image(5, PNG)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("doc", "told"),
    [
        (None, ""),
        ("", ""),
        ("One line.", "One line."),
        ("\n    First\n    and second.\n\n    More.\n", "First and second."),
        ("Args:\n    a: b", ""),
        ("Does.\nArgs:\n    a: b", "Does."),
        ("Does.\n:param a: b", "Does."),
    ],
)
def test_the_first_paragraph_is_the_description(doc: str | None, told: str) -> None:
    assert description(doc) == told


@pytest.mark.parametrize(
    ("doc", "told"),
    [
        (None, {}),
        ("Does.", {}),
        (
            "D.\n\nArgs:\n  a: one\n  b (int, optional): two\n    more: of it\n\n  c: no",
            {"a": "one", "b": "two more: of it", "c": "no"},
        ),
        ("D.\n\nParameters:\n\ta: one\n", {"a": "one"}),
        ("D.\n\nArguments:\n    *a: one\n    **b: two\n", {"a": "one", "b": "two"}),
        ("D.\n\nReturns:\n    a: one\n", {}),
        ("D.\n\nArgs:\n    a: one\nRaises:\n    b: two\n", {"a": "one"}),
        ("D.\n\n:param a: one\n    more\n:param int b: two\n:returns: c\n", {"a": "one more", "b": "two"}),
        ("D.\n\n:parameter a: one\n:type a: int\n", {"a": "one"}),
        ("D.\n\nArgs: none at all\n    a: one", {}),
    ],
)
def test_what_is_said_of_parameters_is_found(doc: str | None, told: dict[str, str]) -> None:
    assert parameters(doc) == told
