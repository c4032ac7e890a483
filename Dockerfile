# Valkey, or another server, with everbloom loaded; Docker is all that it needs. From the root of the repository:
#   docker build -t everbloom .
# docs/getting-started.md has the variables of the image.

# The image that the server comes from: one of Debian, with an unprivileged user of the number 999, such as redis:8.
ARG SERVER=valkey/valkey:8.1
ARG RUST=rust:1.95.0-bookworm

FROM ${RUST} AS build
WORKDIR /everbloom
COPY . .
RUN make build tool && strip target/release/libeverbloom.so target/release/everbloom

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
