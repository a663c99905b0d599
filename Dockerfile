# The command alone, static, in an image without anything else, as a user without rights.
#
#   cargo xtask dist commands --target x86_64-unknown-linux-musl --target aarch64-unknown-linux-musl
#   docker build --platform linux/amd64 --tag holdall .
#   docker run --rm --volume "$PWD:/data:ro" holdall inspect model.safetensors
#
# The files of a folder, served over HTTP and QUIC:
#
#   docker run --rm --volume "$PWD/models:/data:ro" --publish 4433:4433 --publish 4433:4433/udp holdall serve --listen 0.0.0.0:4433 /data

FROM busybox:stable-musl AS unpacked
ARG TARGETARCH
ARG VERSION=0.1.0
COPY target/holdall-${VERSION}/holdall-${VERSION}-*-unknown-linux-musl.tar.gz /archives/
RUN case "$TARGETARCH" in amd64) processor=x86_64 ;; arm64) processor=aarch64 ;; *) exit 1 ;; esac \
    && name="holdall-$VERSION-$processor-unknown-linux-musl" \
    && tar -xzf "/archives/$name.tar.gz" && mv "/$name" /holdall \
    && mkdir -m 1777 /empty

FROM scratch
COPY --from=unpacked /holdall/holdall /usr/bin/holdall
COPY --from=unpacked /holdall/LICENSE-MIT /holdall/LICENSE-APACHE /holdall/THIRD-PARTY-LICENSES.txt /usr/share/doc/holdall/
# For files that are being written.
COPY --from=unpacked /empty /tmp
WORKDIR /data
USER 65532:65532
EXPOSE 4433/tcp 4433/udp
ENTRYPOINT ["/usr/bin/holdall"]
CMD ["help"]
