"""A program for one namespace: prints the cipher suite of each TLS server hello that arrives on an interface, until it is ended."""

from __future__ import annotations

import socket
import sys

ETH_P_ALL = 3
PACKET_OUTGOING = 4
ETHERNET_BYTES = 14


def suite(frame: bytes) -> int | None:
    """The suite that a server chose, if the Ethernet frame starts a TLS 1.3 server hello over IPv4 and TCP (RFC 8446, section 4.1.3)."""
    ip = frame[ETHERNET_BYTES:]
    if len(ip) < 20 or ip[0] >> 4 != 4 or ip[9] != socket.IPPROTO_TCP:
        return None
    tcp = ip[4 * (ip[0] & 15) :]
    if len(tcp) < 20:
        return None
    record = tcp[4 * (tcp[12] >> 4) :]
    # Record header of 5 bytes, handshake header of 4, version of 2, random of 32, then the session's length.
    if len(record) < 44 or record[0] != 22 or record[5] != 2:
        return None
    place = 44 + record[43]
    return int.from_bytes(record[place : place + 2], "big") if len(record) >= place + 2 else None


def main(device: str) -> None:
    """Prints suites as numbers, a line each."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as tap:
        tap.bind((device, ETH_P_ALL))
        print("ready", flush=True)
        while True:
            frame, address = tap.recvfrom(1 << 16)
            found = suite(frame) if address[2] != PACKET_OUTGOING else None
            if found is not None:
                print(found, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
