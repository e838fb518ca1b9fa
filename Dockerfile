# One target per image: operator, mover, advisor.
#
#   docker build --target operator -t fairlead-operator .
#
# The base images are values, so that a release pins them by digest: `make pin-bases` writes the digests of these tags here, and
# `--build-arg PYTHON_IMAGE=docker.io/library/python@sha256:…` does for one build.
ARG RUST_IMAGE=docker.io/library/rust:1-bookworm
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm
# MOVER_STAGE=mover-prebuilt takes the mover's static binary from build/image/ instead of compiling it here.
ARG MOVER_STAGE=mover-build

FROM ${RUST_IMAGE} AS mover-build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
COPY images/mover images/mover
# A member of the workspace, which Cargo reads although it is not built.
COPY hack/wan hack/wan
# Naming the target keeps the static flags away from build scripts and procedural macros.
RUN target="$(uname -m)-unknown-linux-gnu" \
 && RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --locked --target "$target" -p fairlead-mover \
 && install -D -m 0755 "target/$target/release/fairlead-mover" /out/fairlead-mover \
 && strip /out/fairlead-mover

FROM scratch AS mover-prebuilt
COPY build/image/fairlead-mover /out/fairlead-mover

FROM ${MOVER_STAGE} AS mover-binary

FROM scratch AS mover
COPY --from=mover-binary /out/fairlead-mover /usr/local/bin/fairlead-mover
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/fairlead-mover"]

FROM ${PYTHON_IMAGE} AS python-runtime
# The user must have a name: libraries look it up.
RUN groupadd --gid 65532 fairlead && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin fairlead
ENV PATH=/opt/fairlead/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532

# Dependencies and package become layers of their own: a change of the code sends only the code.
# The tools that install: a virtual environment beside the one that goes into the images, which has no pip.
FROM ${PYTHON_IMAGE} AS python-build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
COPY images/build.lock /src/build.lock
RUN python3 -m venv /opt/build \
 && /opt/build/bin/pip install --quiet --require-hashes -r /src/build.lock \
 && python3 -m venv --without-pip /opt/fairlead

FROM python-build AS operator-dependencies
COPY operator/requirements.lock /src/requirements.lock
RUN /opt/build/bin/pip --python /opt/fairlead/bin/python install --quiet --require-hashes -r /src/requirements.lock

FROM operator-dependencies AS operator-build
COPY operator/pyproject.toml /src/operator/pyproject.toml
COPY operator/fairlead /src/operator/fairlead
RUN /opt/build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels /src/operator \
 && /opt/build/bin/pip --python /opt/fairlead/bin/python install --quiet --no-deps --no-index --root /out /wheels/*.whl

FROM python-runtime AS operator
# The node guard gives its rules to nft; the operator itself has no use for it.
ENV PATH=/opt/fairlead/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
# A version of Debian's package, such as 1.0.6-2+deb12u2; the newest of the base image's release if empty.
ARG NFTABLES_VERSION=
USER 0:0
RUN command -v nft >/dev/null \
 || { apt-get update -q && apt-get install -y -q --no-install-recommends "nftables${NFTABLES_VERSION:+=$NFTABLES_VERSION}" && rm -rf /var/lib/apt/lists/*; }
USER 65532:65532
COPY --from=operator-dependencies /opt/fairlead /opt/fairlead
COPY --from=operator-build /out/opt/fairlead /opt/fairlead
ENTRYPOINT ["python", "-m", "fairlead"]

FROM python-build AS advisor-dependencies
COPY images/advisor/requirements.lock /src/requirements.lock
RUN /opt/build/bin/pip --python /opt/fairlead/bin/python install --quiet --require-hashes -r /src/requirements.lock

FROM advisor-dependencies AS advisor-build
COPY images/advisor/pyproject.toml /src/advisor/pyproject.toml
COPY images/advisor/fairlead_advisor /src/advisor/fairlead_advisor
RUN /opt/build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels /src/advisor \
 && /opt/build/bin/pip --python /opt/fairlead/bin/python install --quiet --no-deps --no-index --root /out /wheels/*.whl

FROM python-runtime AS advisor
COPY --from=advisor-dependencies /opt/fairlead /opt/fairlead
COPY --from=advisor-build /out/opt/fairlead /opt/fairlead
ENTRYPOINT ["fairlead-advisor"]
