# syntax=docker/dockerfile:1
# One image for every role; the command says which: worker --group store, beat, migrate, flower.

FROM python:3.12.12-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/memtend
WORKDIR /src
# Third-party wheels first: they change rarely, the code often. Each must have one of the hashes that `make hashes` wrote.
COPY docker/requirements-worker.txt ./
RUN /opt/memtend/bin/pip install --require-hashes --only-binary=:all: -r requirements-worker.txt
COPY pyproject.toml README.md LICENSE ./
COPY memcore memcore
COPY ops ops
COPY scheduler scheduler
COPY tasks tasks
COPY workers workers
RUN /opt/memtend/bin/pip install --no-deps --no-build-isolation . && \
    /opt/memtend/bin/pip check && \
    /opt/memtend/bin/pip uninstall -y hatchling pip && \
    /opt/memtend/bin/python -m compileall -q /opt/memtend/lib

FROM python:3.12.12-slim-bookworm
# A fixed number, so that volumes and tmpfs can be given to it; no shell, no home to write to.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/memtend --shell /usr/sbin/nologin memtend && \
    install -d -o memtend -g memtend -m 0700 /var/lib/memtend
COPY --from=build /opt/memtend /opt/memtend
ENV PATH=/opt/memtend/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    # mem0 and its libraries: no reports to their makers, no downloads, no folder outside of tmpfs.
    MEM0_TELEMETRY=False \
    MEM0_DIR=/tmp/mem0 \
    HF_HUB_OFFLINE=1 \
    # One thread a process: the number of processes decides how many cores are used.
    OMP_NUM_THREADS=1 \
    TOKENIZERS_PARALLELISM=false \
    MEMTEND_HOME=/var/lib/memtend \
    MEMTEND_LOG_FORMAT=json
USER 10001:10001
WORKDIR /var/lib/memtend
ENTRYPOINT ["memtend"]
CMD ["--help"]
