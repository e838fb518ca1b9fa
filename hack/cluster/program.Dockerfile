# One static program as an image: the pause program and CoreDNS of the local cluster.
FROM scratch
ARG PROGRAM
COPY ${PROGRAM} /program
ENTRYPOINT ["/program"]
