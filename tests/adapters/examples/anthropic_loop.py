import anyio
from anthropic import AsyncAnthropic

from rho_wasm import AskUser, Host, Ok, ToolLoop, tool
from rho_wasm.adapters.anthropic import anthropic_model


@tool
def book(city: str) -> AskUser | Ok:
    """Book a trip to a city."""
    return AskUser(f"Book a trip to {city}?", {"yes": "book it", "no": "leave it"})


@tool(manual=True)
def pay(amount: int) -> str:
    """Pay. A person does it, and says how it went."""
    raise NotImplementedError


async def ask(text: str) -> str:
    return await anyio.to_thread.run_sync(input, text)


async def main() -> None:
    async with AsyncAnthropic() as client, Host.open(":memory:", core=[book, pay]) as host:
        loop = ToolLoop(anthropic_model(client, model="claude-sonnet-4-5"), host.runner)
        outcome = await loop.run([{"role": "user", "content": "Book Oslo and pay for it."}])
        while outcome.status in ("ask_user", "manual_tool_calls", "ready"):
            if outcome.status == "ask_user":
                outcome = loop.answer(outcome, await ask(f"{outcome.question} "))
            elif outcome.status == "manual_tool_calls":
                call = outcome.manual_tool_calls[0]
                outcome = loop.submit_tool_result(outcome, call.id, await ask(f"{call.name} {call.arguments} "))
            else:
                outcome = await loop.run(outcome.messages)
        print(outcome.text)


anyio.run(main)
