// A peer over libudt: `peer listen|connect PORT send|receive BYTES [ADDRESS]`, streaming mode, on the loopback without an address. Whoever
// listens prints the port first; whoever receives prints a hash of what came, and in how many seconds all behind the first piece did.
#include <arpa/inet.h>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <udt.h>
#include <vector>

namespace {

int fail(const char *what) {
    std::fprintf(stderr, "%s: %s\n", what, UDT::getlasterror().getErrorMessage());
    return 1;
}

int send_bytes(UDTSOCKET socket, std::uint64_t bytes) {
    std::uint64_t state = 1;
    std::vector<char> piece(100000);
    while (bytes > 0) {
        const int length = static_cast<int>(bytes < piece.size() ? bytes : piece.size());
        for (int at = 0; at < length; ++at) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            piece[at] = static_cast<char>(state >> 56);
        }
        for (int sent = 0; sent < length;) {
            const int now = UDT::send(socket, piece.data() + sent, length - sent, 0);
            if (now == UDT::ERROR) {
                return fail("send");
            }
            sent += now;
        }
        bytes -= length;
    }
    return 0;
}

int receive_bytes(UDTSOCKET socket, std::uint64_t bytes) {
    std::uint64_t hash = 14695981039346656037ULL;
    std::vector<char> piece(100000);
    auto began = std::chrono::steady_clock::time_point();
    while (bytes > 0) {
        const int most = static_cast<int>(bytes < piece.size() ? bytes : piece.size());
        const int now = UDT::recv(socket, piece.data(), most, 0);
        if (now == UDT::ERROR) {
            return fail("recv");
        }
        if (began == std::chrono::steady_clock::time_point()) {
            began = std::chrono::steady_clock::now();
        }
        for (int at = 0; at < now; ++at) {
            hash = (hash ^ static_cast<unsigned char>(piece[at])) * 1099511628211ULL;
        }
        bytes -= now;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::printf("%016llx\n%.6f\n", static_cast<unsigned long long>(hash), took.count());
    std::fflush(stdout);
    return 0;
}

} // namespace

int main(int count, char **arguments) {
    if (count != 5 && count != 6) {
        return 2;
    }
    const std::string role = arguments[1], way = arguments[3];
    const std::uint64_t bytes = std::strtoull(arguments[4], nullptr, 10);
    UDT::startup();
    sockaddr_in address;
    std::memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(arguments[2])));
    address.sin_addr.s_addr = count == 6 ? inet_addr(arguments[5]) : htonl(INADDR_LOOPBACK);
    UDTSOCKET socket = UDT::socket(AF_INET, SOCK_STREAM, 0);
    if (role == "listen") {
        if (UDT::bind(socket, reinterpret_cast<sockaddr *>(&address), sizeof address) == UDT::ERROR ||
            UDT::listen(socket, 1) == UDT::ERROR) {
            return fail("listen");
        }
        int length = sizeof address;
        UDT::getsockname(socket, reinterpret_cast<sockaddr *>(&address), &length);
        std::printf("%d\n", ntohs(address.sin_port));
        std::fflush(stdout);
        const UDTSOCKET accepted = UDT::accept(socket, nullptr, nullptr);
        if (accepted == UDT::INVALID_SOCK) {
            return fail("accept");
        }
        socket = accepted;
    } else if (UDT::connect(socket, reinterpret_cast<sockaddr *>(&address), sizeof address) == UDT::ERROR) {
        return fail("connect");
    }
    const int code = way == "send" ? send_bytes(socket, bytes) : receive_bytes(socket, bytes);
    // Lingers until everything was acknowledged.
    UDT::close(socket);
    UDT::cleanup();
    return code;
}
