"""A program for one namespace: an end of a torrent of zeros over uTP alone, until it is ended.

`seed FOLDER BYTES ADDRESS` has the file; `fetch FOLDER BYTES ADDRESS SEED_ADDRESS SEED_PORT` has it not, and prints lines of `monotonic
seconds, payload bytes so far`. Run by the system's Python, which has Debian's libtorrent. Both ends make the same torrent, so that none
need be handed over.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path

import libtorrent

NAME = "zeros"
PIECE_BYTES = 1 << 20
SOCKET_BUFFER_BYTES = 8 << 20
"""As the mover asks for."""
QUEUED_BYTES = 64 << 20
LOOK_S = 0.05
RECONNECT_S = 5.0
PAYLOAD = "net.recv_payload_bytes"


def settings(address: str) -> dict[str, object]:
    """uTP with its defaults, and nobody else to be found."""
    return {
        "listen_interfaces": address,
        "enable_incoming_tcp": False,
        "enable_outgoing_tcp": False,
        "enable_incoming_utp": True,
        "enable_outgoing_utp": True,
        "enable_dht": False,
        "enable_lsd": False,
        "enable_upnp": False,
        "enable_natpmp": False,
        # In plain: encryption would only take time.
        "in_enc_policy": int(libtorrent.enc_policy.pe_disabled),
        "out_enc_policy": int(libtorrent.enc_policy.pe_disabled),
        "recv_socket_buffer_size": SOCKET_BUFFER_BYTES,
        "send_socket_buffer_size": SOCKET_BUFFER_BYTES,
        # So that neither end waits for its disk, which is memory.
        "max_queued_disk_bytes": QUEUED_BYTES,
        "send_buffer_watermark": SOCKET_BUFFER_BYTES,
        "send_buffer_watermark_factor": 200,
    }


def torrent(size_bytes: int) -> libtorrent.torrent_info:
    """A file of zeros, of whole pieces."""
    files = libtorrent.file_storage()
    files.add_file(NAME, size_bytes)
    made = libtorrent.create_torrent(files, PIECE_BYTES, libtorrent.create_torrent.v1_only)
    # BitTorrent's hash of a piece.
    digest = hashlib.sha1(bytes(PIECE_BYTES), usedforsecurity=False).digest()
    for piece in range(made.num_pieces()):
        made.set_hash(piece, digest)
    return libtorrent.torrent_info(made.generate())


def main(role: str, folder: str, size_bytes: int, address: str, peer: tuple[str, int] | None) -> None:
    """Serves or fetches until the process is ended."""
    session = libtorrent.session(settings(address))
    wanted = libtorrent.add_torrent_params()
    wanted.ti, wanted.save_path = torrent(size_bytes), folder
    wanted.flags = libtorrent.torrent_flags.seed_mode if role == "seed" else libtorrent.torrent_flags.sequential_download
    if role == "seed":
        with Path(folder, NAME).open("wb") as file:
            file.truncate(size_bytes)
    handle = session.add_torrent(wanted)
    connect_s = time.monotonic()
    while True:
        if peer is not None and time.monotonic() >= connect_s and not handle.status().num_peers:
            handle.connect_peer(peer)
            connect_s = time.monotonic() + RECONNECT_S
        session.post_session_stats()
        session.wait_for_alert(int(LOOK_S * 1000))
        for alert in session.pop_alerts():
            if isinstance(alert, libtorrent.session_stats_alert) and role == "fetch":
                print(f"{time.monotonic():.4f} {alert.values[PAYLOAD]}", flush=True)
        time.sleep(LOOK_S)


if __name__ == "__main__":
    main(
        sys.argv[1],
        sys.argv[2],
        int(sys.argv[3]),
        sys.argv[4],
        (sys.argv[5], int(sys.argv[6])) if len(sys.argv) > 5 else None,
    )
