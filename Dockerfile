FROM python:3.11.15-slim-trixie AS interpreter
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

FROM interpreter AS wheel
WORKDIR /source
COPY deploy/build-requirements.txt /requirements.txt
RUN pip install --no-cache-dir --only-binary :all: --require-hashes --requirement /requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY dashboards dashboards
COPY docs/runbooks docs/runbooks
COPY migrations migrations
COPY ett_service ett_service
RUN python -m build --no-isolation --wheel --outdir /wheels

FROM interpreter AS environment
COPY deploy/requirements.txt /requirements.txt
COPY --from=wheel /wheels /wheels
# Without pip of its own: nothing can be installed into it later.
RUN python -m venv --without-pip /venv \
    && pip --python /venv/bin/python install --no-cache-dir --only-binary :all: --no-deps \
        --require-hashes --requirement /requirements.txt \
    && pip --python /venv/bin/python install --no-cache-dir --no-deps --no-index /wheels/*.whl \
    && python -m compileall -q /venv

FROM interpreter
LABEL org.opencontainers.image.title="ett-service" \
      org.opencontainers.image.description="Effective Training Time (ETT%) of a fleet of training jobs" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN pip uninstall --yes --quiet pip \
    && groupadd --gid 10001 ett \
    && useradd --uid 10001 --gid ett --no-create-home --home-dir /nonexistent \
        --shell /usr/sbin/nologin ett \
    # A new volume takes over whose its folder in the image is.
    && install --directory --owner ett --group ett /data /keys
COPY --from=environment /venv /venv
ENV PATH=/venv/bin:$PATH \
    ETT_DATABASE_URL=sqlite:////data/ett.db \
    ETT_HOST=0.0.0.0
WORKDIR /data
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]
ENTRYPOINT ["ett"]
# Not to standard output, which the container's log keeps.
CMD ["serve", "--first-key", "/data/first-key"]
