# An image of Valkey or Redis with everbloom loaded. Building it needs only Docker, from the root of the repository:
#   docker build -t everbloom .
# docs/getting-started.md lists the variables that configure the image.

# The base image with the server. It must be based on Debian and have an unprivileged user with id 999, as redis:8 has.
ARG SERVER=valkey/valkey:8.0
ARG RUST=rust:1.95.0-bookworm

FROM ${RUST} AS build
WORKDIR /everbloom
COPY . .
RUN make build tool && strip target/release/libeverbloom.so target/release/everbloom

# The module alone, for image volumes of Kubernetes and for COPY --from: docker build --target module .
FROM scratch AS module
COPY --from=build /everbloom/target/release/libeverbloom.so /everbloom.so

FROM ${SERVER}
COPY --from=build /everbloom/target/release/libeverbloom.so /usr/lib/redis/modules/everbloom.so
COPY --from=build /everbloom/target/release/everbloom /usr/local/bin/everbloom
COPY packaging/container/entrypoint /usr/local/bin/everbloom-server
USER 999
VOLUME /data
WORKDIR /data
EXPOSE 6379
ENTRYPOINT ["everbloom-server"]
CMD []
