// bench_tcp: an ordinary TCP program, for showing that a lane carries one: an echo server for one connection, and a
// client that sends bytes and checks that the same come back.
//   bench_tcp --serve --bind 10.9.0.100:8000        bench_tcp --to 10.9.0.100:8000 --bytes 1000000
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include "lib/base/unique_fd.hpp"

namespace podlane::bench {
namespace {

sockaddr_in parse_endpoint(const std::string& text) {
  sockaddr_in endpoint{};
  endpoint.sin_family = AF_INET;
  const auto colon = text.find(':');
  if (colon == std::string::npos || ::inet_pton(AF_INET, text.substr(0, colon).c_str(), &endpoint.sin_addr) != 1) {
    throw std::runtime_error("'" + text + "' must be ADDRESS:PORT");
  }
  endpoint.sin_port = htons(static_cast<std::uint16_t>(std::stoi(text.substr(colon + 1))));
  return endpoint;
}

void serve(const std::string& bind) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const sockaddr_in here = parse_endpoint(bind);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&here), sizeof(here)) != 0 ||
      ::listen(listener.get(), 1) != 0) {
    throw std::runtime_error("listen on " + bind + ": " + std::strerror(errno));
  }
  const UniqueFd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  char buffer[16384];
  for (ssize_t n; (n = ::read(connection.get(), buffer, sizeof(buffer))) > 0;) {
    if (::write(connection.get(), buffer, static_cast<std::size_t>(n)) != n) throw std::runtime_error("write");
  }
}

void ask(const std::string& to, std::size_t bytes) {
  const UniqueFd connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{10, 0};
  ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const sockaddr_in there = parse_endpoint(to);
  for (int tries = 0; ::connect(connection.get(), reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0; ++tries) {
    if (errno != ECONNREFUSED || tries == 100) throw std::runtime_error("connect " + to + ": " + std::strerror(errno));
    ::poll(nullptr, 0, 50);
  }
  std::string sent(bytes, '\0'), received(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) sent[i] = static_cast<char>(i * 31 + i / 4096);
  std::thread writer([&] {
    for (std::size_t at = 0; at < bytes;) {
      const ssize_t n = ::write(connection.get(), sent.data() + at, bytes - at);
      if (n <= 0) return;
      at += static_cast<std::size_t>(n);
    }
  });
  std::size_t at = 0;
  while (at < bytes) {
    const ssize_t n = ::read(connection.get(), received.data() + at, bytes - at);
    if (n <= 0) break;
    at += static_cast<std::size_t>(n);
  }
  ::shutdown(connection.get(), SHUT_RDWR);
  writer.join();
  if (at != bytes || sent != received) throw std::runtime_error("only " + std::to_string(at) + " bytes came back right");
  std::printf("%zu bytes went and came back unchanged\n", bytes);
}

int run(int argc, char** argv) {
  std::string bind, to;
  bool server = false;
  std::size_t bytes = 1000000;
  CLI::App app("TCP echo and its client");
  app.add_flag("--serve", server);
  app.add_option("--bind", bind);
  app.add_option("--to", to);
  app.add_option("--bytes", bytes)->check(CLI::Range(1, 1000000000));
  CLI11_PARSE(app, argc, argv);
  server ? serve(bind) : ask(to, bytes);
  return 0;
}

}  // namespace
}  // namespace podlane::bench

int main(int argc, char** argv) {
  try {
    return podlane::bench::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_tcp: %s\n", failure.what());
    return 1;
  }
}
