"""The registry, held to ``seeds/rho-tool-registry.txt`` and to the design page "behaviour", "Registry".

* The tools the agent can call, by name, from three places
  -> test_tools_come_from_three_places
* the host's core tools, given when the registry starts (... else builtin_tools/0)
  -> test_without_core_tools_named_the_built_in_ones_are_core
* tools registered at runtime (register/1, unregister/1)
  -> test_a_registered_tool_is_offered_until_it_is_unregistered
* both live in one ETS table owned by this process
  -> test_two_registries_share_nothing
* sources: modules asked on every call, so a source whose tool set changes changes what is offered at once
  -> test_a_source_whose_tools_change_changes_what_is_offered_at_once
* with nothing to register or unregister
  -> test_a_source_whose_tools_change_changes_what_is_offered_at_once
* A name in the table always wins over a source's
  -> test_a_name_in_the_table_wins_over_every_source
* and an earlier source over a later one
  -> test_an_earlier_source_wins_over_a_later_one
* The loop reads the list at the start of every model call, so a new tool is offered from the next call on
  -> test_a_new_tool_is_in_the_next_snapshot_and_not_in_the_last; tests/test_loop.py
* builtin_tools: read_artifact (paging a cut tool output) and todo
  -> test_without_core_tools_named_the_built_in_ones_are_core
* core_tools: the core tools the registry started with
  -> test_core_tools_are_those_it_started_with
* (a source's tool may not take their names)
  -> test_a_source_never_offers_a_core_name_or_a_look_alike
* list: all tools (the table's, then the sources'), sorted by name
  -> test_the_list_is_sorted_by_name
* lookup: the table's, else the first source's that has it
  -> test_a_name_in_the_table_wins_over_every_source, test_an_earlier_source_wins_over_a_later_one
* lookup: or :error
  -> test_a_name_that_nobody_has_is_none
* register: adds module under its name, replacing a tool of that name
  -> test_registering_again_replaces
* {:error, :not_a_tool} if it doesn't implement Rho.Tool
  -> test_what_is_no_tool_cannot_be_registered
* sources: the registry's sources, in order (none while the registry isn't running)
  -> test_sources_are_told_in_order
* start_link: options :tools, :tool_sources
  -> test_tools_come_from_three_places
* unregister: removes the tool named name from the table (a source's tools aren't affected)
  -> test_unregistering_does_not_touch_a_source
* watch: tells every source a tool call is about to run
  -> test_every_source_is_told_of_every_call_and_one_that_raises_costs_only_a_report
* so a source can watch its own tools' calls (crashes, timeouts)
  -> tests/test_runner.py::test_a_source_hears_how_each_call_ended
"""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from rho_wasm.calls import RunningCall
from rho_wasm.errors import NameInvalid, NameReserved, NotATool, SchemaInvalid
from rho_wasm.events import SourceFailed
from rho_wasm.offered import ToolSchemas
from rho_wasm.registry import ToolRegistry
from rho_wasm.testing import FakeSource
from rho_wasm.tools import Tool
from tests.helpers import Events, context, echo, make

BAD_SCHEMA = {"type": "no such type"}


def names(registry: ToolRegistry) -> list[str]:
    return [tool.name for tool in registry.list()]


def test_tools_come_from_three_places() -> None:
    core, registered, sourced = echo("core"), echo("registered"), echo("sourced")
    registry = ToolRegistry([core], sources=[FakeSource(sourced)])
    registry.register(registered)
    assert names(registry) == ["core", "registered", "sourced"]
    assert [registry.lookup(name) for name in names(registry)] == [core, registered, sourced]


def test_without_core_tools_named_the_built_in_ones_are_core() -> None:
    assert names(ToolRegistry()) == ["read_artifact", "todo"]
    assert names(ToolRegistry([])) == []


def test_a_registered_tool_is_offered_until_it_is_unregistered() -> None:
    registry = ToolRegistry([])
    registry.register(echo())
    assert names(registry) == ["echo"]
    registry.unregister("echo")
    assert (names(registry), registry.lookup("echo")) == ([], None)


def test_registering_again_replaces() -> None:
    registry, other = ToolRegistry([]), echo(description="the other")
    registry.register(echo())
    registry.register(other)
    assert registry.lookup("echo") is other
    assert registry.list() == (other,)


def test_two_registries_share_nothing() -> None:
    one, other = ToolRegistry([]), ToolRegistry([])
    one.register(echo())
    assert other.lookup("echo") is None
    assert one.outputs is not other.outputs


def test_a_source_whose_tools_change_changes_what_is_offered_at_once() -> None:
    source = FakeSource(echo("a"))
    registry = ToolRegistry([], sources=[source])
    assert names(registry) == ["a"]
    source.set(echo("b"))
    assert names(registry) == ["b"]
    assert (registry.lookup("a"), registry.lookup("b")) == (None, source.lookup("b"))


def test_a_name_in_the_table_wins_over_every_source() -> None:
    mine = echo("x")
    registry = ToolRegistry([], sources=[FakeSource(echo("x"))])
    registry.register(mine)
    assert registry.lookup("x") is mine
    assert registry.list() == (mine,)
    (shadowed,) = registry.shadowed()
    assert (shadowed.tool, shadowed.source, shadowed.by) == ("x", "fake", "x")
    assert "table" in shadowed.why


def test_an_earlier_source_wins_over_a_later_one() -> None:
    first, second = FakeSource(echo("x"), name="first"), FakeSource(echo("x"), name="second")
    registry = ToolRegistry([], sources=[first, second])
    assert registry.lookup("x") is first.lookup("x")
    assert registry.list() == (first.lookup("x"),)
    (shadowed,) = registry.shadowed()
    assert (shadowed.source, "first" in shadowed.why) == ("second", True)


def test_a_new_tool_is_in_the_next_snapshot_and_not_in_the_last() -> None:
    registry = ToolRegistry([])
    before = registry.snapshot()
    registry.register(echo())
    assert before.lookup("echo") is None
    assert registry.snapshot().lookup("echo") is not None


def test_core_tools_are_those_it_started_with() -> None:
    core = echo("core")
    registry = ToolRegistry([core])
    registry.register(echo("later"))
    assert registry.core_tools() == (core,)


@pytest.mark.parametrize("name", ["pay_all", "PAY_ALL", "payall", "pay-all", "pay_a11", "Pay_aIl"])
def test_a_source_never_offers_a_core_name_or_a_look_alike(name: str) -> None:
    source = FakeSource(echo(name), echo("free"))
    registry = ToolRegistry([echo("pay_all", description="the host's")], sources=[source])
    assert names(registry) == ["free", "pay_all"]
    found = registry.lookup(name)
    assert found is None or found.description == "the host's"
    (shadowed,) = registry.shadowed()
    assert (shadowed.tool, shadowed.source, shadowed.by) == (name, "fake", "pay_all")
    assert shadowed.why


@pytest.mark.parametrize("name", ["call_tool", "Call-Tool", "read_artifact", "todo", "switch_tools", "t0do"])
def test_a_source_never_offers_a_name_that_the_host_reserves(name: str) -> None:
    registry = ToolRegistry([], sources=[FakeSource(echo(name))])
    assert (names(registry), registry.lookup(name)) == ([], None)
    assert [shadowed.tool for shadowed in registry.shadowed()] == [name]


def test_a_source_never_offers_a_name_with_two_underscores() -> None:
    registry = ToolRegistry([], sources=[FakeSource(echo("server__tool"))])
    assert (names(registry), registry.lookup("server__tool")) == ([], None)
    assert "prefix" in registry.shadowed()[0].why


@pytest.mark.parametrize("name", ["core", "C0RE", "c-o-r-e", "todo", "call_tool", "deploy"])
def test_a_core_name_a_reserved_one_and_their_look_alikes_cannot_be_registered(name: str) -> None:
    registry = ToolRegistry([echo("core")], reserved=["deploy"])
    with pytest.raises(NameReserved):
        registry.register(echo(name))
    assert names(registry) == ["core"]
    assert registry.reservation(name) is not None
    assert registry.reservation("free") is None


def test_a_core_name_cannot_be_unregistered() -> None:
    registry = ToolRegistry([echo("core")])
    with pytest.raises(NameReserved):
        registry.unregister("core")
    assert names(registry) == ["core"]


def test_unregistering_an_unknown_name_does_nothing() -> None:
    ToolRegistry([]).unregister("unknown")


def test_unregistering_does_not_touch_a_source() -> None:
    source = FakeSource(echo("x"))
    registry = ToolRegistry([], sources=[source])
    registry.unregister("x")
    assert registry.lookup("x") is source.lookup("x")


def test_core_tools_are_the_hosts_so_they_may_have_the_hosts_names() -> None:
    assert names(ToolRegistry([echo("todo"), echo("call_tool")])) == ["call_tool", "todo"]


def test_two_core_tools_of_one_name_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="two core tools are named 'echo'"):
        ToolRegistry([echo(), echo()])


@pytest.mark.parametrize("thing", [None, "echo", echo, object()])
def test_what_is_no_tool_cannot_be_registered(thing: Any) -> None:
    with pytest.raises(NotATool):
        ToolRegistry([]).register(thing)
    with pytest.raises(NotATool):
        ToolRegistry([thing])


def test_names_with_two_underscores_are_refused_everywhere() -> None:
    with pytest.raises(NameInvalid):
        ToolRegistry([]).register(echo("a__b"))
    with pytest.raises(NameInvalid):
        ToolRegistry([echo("a__b")])


def test_a_tool_whose_schema_arguments_cannot_be_checked_against_is_refused() -> None:
    with pytest.raises(SchemaInvalid):
        ToolRegistry([]).register(make(None, input_schema=BAD_SCHEMA))
    with pytest.raises(SchemaInvalid):
        ToolRegistry([make(None, input_schema=BAD_SCHEMA)])


def test_a_sources_tool_with_a_bad_schema_costs_only_that_tool_and_is_reported() -> None:
    events = Events()
    source = FakeSource(make(None, name="bad", input_schema=BAD_SCHEMA), echo("good"))
    registry = ToolRegistry([], sources=[source], on_event=events.append)
    for _ in range(2):
        assert names(registry) == ["good"]
    assert registry.lookup("bad") is None
    assert [shadowed.tool for shadowed in registry.shadowed()] == ["bad"]
    (failed,) = events.of(SourceFailed)
    assert (failed.source, failed.tools) == ("fake", ("bad",))


def test_an_untrusted_tool_whose_description_hides_characters_is_never_offered() -> None:
    hidden = "pay \u202eyap"
    in_schema = {"type": "object", "properties": {"a": {"description": f"x{chr(0xE0041)}"}}}
    source = FakeSource(
        echo("a", description=hidden, untrusted=True),
        echo("b", input_schema=in_schema, untrusted=True),
        echo("c", description="plain\nand\tsimple", untrusted=True),
    )
    registry = ToolRegistry([], sources=[source])
    assert names(registry) == ["c"]
    assert "RIGHT-TO-LEFT OVERRIDE" in registry.shadowed()[0].why


def test_a_bad_later_tool_does_not_step_in_for_an_earlier_one_that_cannot_be_offered() -> None:
    bad = FakeSource(make(None, name="x", input_schema=BAD_SCHEMA), name="bad")
    registry = ToolRegistry([], sources=[bad, FakeSource(echo("x"))])
    assert (registry.lookup("x"), names(registry)) == (None, [])


def test_the_list_is_sorted_by_name() -> None:
    source = FakeSource(echo("d"), echo("a"))
    registry = ToolRegistry([echo("c"), echo("e")], sources=[source])
    registry.register(echo("b"))
    assert names(registry) == ["a", "b", "c", "d", "e"]


def test_a_name_that_nobody_has_is_none() -> None:
    registry = ToolRegistry([echo("core")], sources=[FakeSource(echo("a"))])
    assert registry.lookup("b") is None
    for nonsense in (None, 7, ["a"], "a b", "a" * 1_000_000):
        assert registry.lookup(nonsense) is None  # type: ignore[arg-type]


def test_sources_are_told_in_order() -> None:
    sources = [FakeSource(), FakeSource()]
    assert ToolRegistry([], sources=sources).sources() == tuple(sources)
    assert ToolRegistry([]).sources() == ()


def test_every_source_is_told_of_every_call_and_one_that_raises_costs_only_a_report() -> None:
    events = Events()
    raising, other = FakeSource(name="raising"), FakeSource()
    raising.failing.add("watch")
    registry = ToolRegistry([], sources=[raising, other], on_event=events.append)
    running = RunningCall(echo(), context("echo"), lambda: None, None)
    registry.watch(running)
    assert other.watched == [running]
    assert [(event.source, event.operation) for event in events.of(SourceFailed)] == [("raising", "watch")]


@pytest.mark.parametrize("versioned", [False, True])
def test_the_list_is_cached_until_something_changes(versioned: bool) -> None:
    source = FakeSource(echo("a"), versioned=versioned)
    registry = ToolRegistry([], sources=[source])
    before, snapshot = registry.list(), registry.snapshot()
    assert registry.list() is before
    assert registry.snapshot() is snapshot
    registry.register(echo("b"))
    after = registry.list()
    assert after is not before
    assert registry.list() is after
    source.set(echo("c"))
    assert names(registry) == ["b", "c"]
    registry.unregister("b")
    assert names(registry) == ["c"]


def test_a_source_with_a_version_is_asked_for_its_list_only_when_that_moved() -> None:
    source = FakeSource(echo("a"), versioned=True)
    registry = ToolRegistry([], sources=[source])
    for _ in range(5):
        registry.list()
    assert source.asked["list"] == 1
    source.set(echo("b"))
    registry.list()
    assert source.asked["list"] == 2


def test_a_source_that_failed_once_is_asked_again_though_its_version_stayed() -> None:
    source = FakeSource(echo("a"), versioned=True)
    registry = ToolRegistry([], sources=[source])
    source.failing.add("list")
    assert names(registry) == []
    source.failing.clear()
    assert names(registry) == ["a"]


@pytest.mark.parametrize("operation", ["list", "version"])
def test_a_source_that_raises_in_list_costs_its_own_tools_and_is_reported(operation: str) -> None:
    events = Events()
    broken, good = FakeSource(echo("a"), name="broken"), FakeSource(echo("b"))
    broken.failing.add(operation)
    registry = ToolRegistry([echo("core")], sources=[broken, good], on_event=events.append)
    assert names(registry) == ["b", "core"]
    (failed,) = events.of(SourceFailed)
    assert (failed.source, failed.operation) == ("broken", "list")
    assert "RuntimeError" in failed.error


def test_a_source_that_raises_in_lookup_costs_its_own_tools_and_is_reported() -> None:
    events = Events()
    broken, good = FakeSource(echo("a"), name="broken"), FakeSource(echo("b"))
    broken.failing.add("lookup")
    registry = ToolRegistry([], sources=[broken, good], on_event=events.append)
    assert registry.lookup("b") is good.lookup("b")
    assert registry.lookup("a") is None
    assert [(event.operation, event.tools) for event in events.of(SourceFailed)] == [
        ("lookup", ("b",)),
        ("lookup", ("a",)),
    ]


def test_a_source_that_answers_a_tool_of_another_name_is_not_believed() -> None:
    class Liar(FakeSource):
        def lookup(self, name: str) -> Tool | None:
            return echo("pay")

    class Nonsense(FakeSource):
        def lookup(self, name: str) -> Any:
            return "a tool"

    events = Events()
    registry = ToolRegistry([], sources=[Liar(), Nonsense()], on_event=events.append)
    assert registry.lookup("harmless") is None
    assert len(events) == 2


def test_a_source_that_lists_something_else_than_tools_costs_only_itself() -> None:
    class Nonsense(FakeSource):
        def list(self) -> Any:
            return [echo("a"), "b"]

    events = Events()
    registry = ToolRegistry([echo("core")], sources=[Nonsense()], on_event=events.append)
    assert names(registry) == ["core"]
    assert len(events) == 1


def test_a_subscriber_that_raises_costs_nothing() -> None:
    def subscriber(event: object) -> None:
        raise RuntimeError("a screen broke")

    broken = FakeSource()
    broken.failing.add("list")
    assert names(ToolRegistry([echo("core")], sources=[broken], on_event=subscriber)) == ["core"]


class CountingDict(dict[str, Tool]):
    """Counts how often it is read."""

    reads = 0

    def get(self, *args: Any) -> Any:
        self.reads += 1
        return super().get(*args)


@pytest.mark.parametrize("size", [1, 10_000])
def test_a_look_up_costs_the_same_with_ten_thousand_tools(size: int) -> None:
    source = FakeSource(*(make(None, name=f"t{n}") for n in range(size)))
    source._tools = counting = CountingDict(source._tools)
    registry = ToolRegistry([], sources=[source])
    registry.lookup("t0")
    registry.lookup("missing")
    assert (source.asked["list"], source.asked["lookup"], counting.reads) == (0, 2, 2)


def test_a_look_up_takes_no_lock() -> None:
    registry = ToolRegistry([echo("core")], sources=[FakeSource(echo("a"))])
    found: list[Tool | None] = []
    with registry._writing:  # held by a writer elsewhere
        thread = threading.Thread(target=lambda: found.extend(map(registry.lookup, ("core", "a", "b"))))
        thread.start()
        thread.join(timeout=60)
        assert not thread.is_alive()
    assert [tool and tool.name for tool in found] == ["core", "a", None]


def test_a_snapshot_answers_what_it_showed_whatever_switches_meanwhile() -> None:
    old, source = echo("registered"), FakeSource(echo("sourced", description="old"))
    registry = ToolRegistry([], sources=[source])
    registry.register(old)
    snapshot = registry.snapshot()
    registry.register(echo("registered", description="new"))
    source.set(echo("other"))
    assert snapshot.lookup("registered") is old
    assert (found := snapshot.lookup("sourced")) is not None
    assert found.description == "old"
    assert [tool.name for tool in snapshot.list()] == ["registered", "sourced"]


def test_unregistering_holds_in_snapshots_at_once_and_for_good() -> None:
    registry = ToolRegistry([])
    registry.register(echo())
    snapshot = registry.snapshot()
    registry.unregister("echo")
    assert snapshot.lookup("echo") is None
    registry.register(echo(description="another one"))
    assert snapshot.lookup("echo") is None


def test_a_snapshot_reads_like_a_map() -> None:
    registry = ToolRegistry([echo("b"), echo("a")])
    snapshot = registry.snapshot()
    assert (list(snapshot), len(snapshot), "a" in snapshot) == (["a", "b"], 2, True)
    assert snapshot["b"] is registry.lookup("b")
    with pytest.raises(KeyError):
        snapshot["c"]
    assert repr(snapshot) == "<ToolSnapshot of 2 tools>"


def test_registering_from_many_threads_at_once_loses_nothing() -> None:
    registry = ToolRegistry([])

    def register(thread: int) -> None:
        for n in range(25):
            registry.register(make(None, name=f"t{thread}-{n}"))
            registry.list()

    threads = [threading.Thread(target=register, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(registry.list()) == 100


def test_schemas_are_compiled_once_and_let_go_with_their_tool() -> None:
    schemas, tool = ToolSchemas(), echo()
    assert schemas.of(tool) is schemas.of(tool)
    assert len(schemas) == 1
    del tool
    gc.collect()
    assert len(schemas) == 0


@pytest.mark.parametrize(
    "answers",
    [
        {"type": "nope"},
        {"$ref": "http://evil.example/schema"},
        {"type": "object", "properties": {"a": {"pattern": "(?=x)"}}},
        {"type": "object", "description": "x" * 70_000},
        {"type": "object", "description": "\u202e"},
        {"type": "object", "properties": {"\U000e0041": {}}},
    ],
)
def test_the_schema_of_answers_is_looked_at_before_anybody_is_shown_it(answers: dict[str, Any]) -> None:
    tool = echo().replace(output_schema=answers, untrusted=True)
    with pytest.raises(SchemaInvalid):
        ToolRegistry([]).register(tool)
    offered = ToolRegistry([], sources=[FakeSource(tool)])
    assert offered.list() == ()
    assert offered.lookup(tool.name) is None


def test_a_description_has_a_bound() -> None:
    with pytest.raises(SchemaInvalid, match="65536"):
        ToolRegistry([]).register(echo().replace(description="x" * 65_537))
