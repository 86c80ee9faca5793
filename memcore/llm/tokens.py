"""How many tokens a text has, where nobody counted them."""

from memcore.llm.completion import CompletionRequest

#: Bytes of a token, on the safe side for most languages: English has more to a token, CJK about three.
BYTES_PER_TOKEN = 4


def estimated_tokens(text: str) -> int:
    """Return a quarter of the text's UTF-8 bytes, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def estimated_prompt(request: CompletionRequest) -> int:
    """Return what the request's messages come to, each rounded up."""
    return sum(estimated_tokens(message.content) for message in request.messages)
