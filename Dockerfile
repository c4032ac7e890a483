# Debian's Valkey, or Redis, with everbloom loaded, as a user without rights. From the root of the repository, after
# `make dist` (docs/getting-started.md):
#   buildah build -f packaging/container/Containerfile --build-arg SERVER=valkey -t everbloom:valkey .
ARG BASE=docker.io/library/debian:trixie-slim
FROM ${BASE}
# valkey or redis
ARG SERVER=valkey
# Set by the builder: amd64 or arm64.
ARG TARGETARCH=amd64
COPY dist/everbloom_*_${TARGETARCH}.deb /tmp/
RUN apt-get update \
 && apt-get install -y --no-install-recommends ${SERVER}-server /tmp/everbloom_*_${TARGETARCH}.deb \
 && rm -rf /tmp/everbloom_* /var/lib/apt/lists/* /var/cache/apt/* \
 && mkdir /data && chown ${SERVER}: /data
COPY packaging/container/entrypoint /usr/local/bin/everbloom-server
USER ${SERVER}
VOLUME /data
WORKDIR /data
EXPOSE 6379
ENTRYPOINT ["everbloom-server"]
