"""An engine in an event loop: prepare a prompt from memory, answer, remember. Run it beside `memtend up`."""

import asyncio

from memcore import AsyncMemory

AGENT = "oncall"


async def ask_model(messages: list[dict[str, str]]) -> str:
    """Stand in for your language model: repeat the memories it was shown."""
    return messages[-2]["content"]


async def turn(memory: AsyncMemory, question: str) -> str:
    """Answer one question with what the agent remembers, and remember that it was asked."""
    remembered = await memory.prepare(AGENT, question, token_budget=800)
    messages = [{"role": str(each.role), "content": each.content} for each in remembered]
    answer = await ask_model([*messages, {"role": "user", "content": question}])
    await memory.store(AGENT, f"Asked: {question}", category="episodic", tags=["question"])
    return answer


async def main() -> None:
    async with AsyncMemory.from_environment() as memory:
        texts = ["The payment queue pages at 500 messages.", "Deploys are frozen on Fridays."]
        receipt = await memory.store_many(AGENT, texts)  # returns once the broker holds them
        for status in await memory.wait(receipt):
            if status.state != "done":
                raise SystemExit(f"{status.state}: {status.reason}")
        questions = ("When does the payment queue page?", "May I deploy on Friday?")
        for answer in await asyncio.gather(*(turn(memory, question) for question in questions)):
            print(answer)


if __name__ == "__main__":
    asyncio.run(main())
