from memcore.client.outlet import CHUNK_BYTES, CHUNK_JOBS, chunks
from memcore.client.posting import Posting


def posting(number: int, payload: str = "{}") -> Posting:
    return Posting(job_id=f"job-{number}", queue="q", payload=payload, summary="s")


def test_chunks_keep_the_order_and_the_limit_on_jobs() -> None:
    postings = [posting(number) for number in range(2 * CHUNK_JOBS + 1)]
    cut = list(chunks(iter(postings)))
    assert [len(chunk) for chunk in cut] == [CHUNK_JOBS, CHUNK_JOBS, 1]
    assert [each for chunk in cut for each in chunk] == postings


def test_chunks_keep_the_limit_on_bytes_and_let_no_giant_stop_the_rest() -> None:
    half = "x" * (CHUNK_BYTES // 2)
    sizes = [half, half, half, "x" * (CHUNK_BYTES + 1), "{}"]
    assert [len(chunk) for chunk in chunks(posting(n, text) for n, text in enumerate(sizes))] == [2, 1, 1, 1]


def test_nothing_makes_no_chunk() -> None:
    assert list(chunks([])) == []


def test_a_posting_shows_no_memory() -> None:
    assert "xylophone" not in repr(posting(1, "xylophone"))
