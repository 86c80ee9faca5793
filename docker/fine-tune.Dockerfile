# syntax=docker/dockerfile:1
# The runner of one stage of a fine-tune, for CPUs or with --build-arg VARIANT=gpu for NVIDIA's GPUs; the code is the same.
ARG VARIANT=cpu

FROM python:3.12.12-slim-bookworm AS wanted
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/memtend
WORKDIR /src
COPY constraints.txt pyproject.toml README.md LICENSE ./
RUN mkdir memcore ops scheduler tasks workers && grep -o "torch==[^\"]*" pyproject.toml > torch.txt

# The same version of torch twice: the CPU's wheel is in an index of its own, and of two the local version counts as later.
FROM wanted AS torch-cpu
RUN /opt/memtend/bin/pip install -c constraints.txt --extra-index-url https://download.pytorch.org/whl/cpu -r torch.txt

# On Linux the package index's own wheel brings CUDA.
FROM wanted AS torch-gpu
RUN /opt/memtend/bin/pip install -c constraints.txt -r torch.txt

FROM torch-${VARIANT} AS build
# Third-party wheels first: they change rarely, the code often.
RUN /opt/memtend/bin/pip install -c constraints.txt hatchling && \
    /opt/memtend/bin/pip install -c constraints.txt --no-build-isolation ".[finetune]"
COPY memcore memcore
COPY ops ops
COPY scheduler scheduler
COPY tasks tasks
COPY workers workers
RUN /opt/memtend/bin/pip install --no-deps --no-build-isolation --force-reinstall . && \
    /opt/memtend/bin/pip uninstall -y hatchling pip && \
    /opt/memtend/bin/python -m compileall -q /opt/memtend/lib

FROM python:3.12.12-slim-bookworm
# Whoever runs it may name another user, whose files then come out; where its stages lie is there for the mounts.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin memtend && \
    install -d -m 0755 /data /inputs /etc/fine-tune && \
    install -d -o memtend -g memtend -m 0755 /checkpoints
COPY --from=build /opt/memtend /opt/memtend
ENV PATH=/opt/memtend/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    # Models come from this image and its mounts alone; what libraries cache goes to tmpfs.
    HF_HUB_OFFLINE=1 \
    TOKENIZERS_PARALLELISM=false \
    HOME=/tmp
USER 10001:10001
WORKDIR /tmp
HEALTHCHECK --interval=10s --timeout=5s --retries=3 --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:15002/healthz', timeout=4)"]
ENTRYPOINT ["python", "-P", "-m", "memcore.programs", "memcore.finetune.runner"]
