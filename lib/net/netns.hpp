// Network namespaces by descriptor. A thread of a multi-threaded process never changes its namespace: work inside one
// runs on a short-lived thread that then exits. Sockets made there keep belonging to that namespace.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lib/base/result.hpp"
#include "lib/base/unique_fd.hpp"

namespace podlane::net {

// Opens and proves that it is a network namespace (nsfs and NS_GET_NSTYPE). kNotFound when the path is missing;
// kGone when it is a plain file, as a bind mount leaves behind once it is unmounted.
Result<UniqueFd> open_netns(const std::string& path);
Result<UniqueFd> own_netns();

// Is a network namespace still mounted at path?  unknown: the directory itself is not visible here.
enum class NetNsState { kAlive, kGone, kUnknown };
NetNsState netns_state(const std::string& path);

// Runs work on a new thread inside the namespace and waits for it. Needs CAP_SYS_ADMIN (setns(2)).
Result<void> run_in_netns(int netns_fd, const std::function<Result<void>()>& work);

// SO_NETNS_COOKIE (Linux 5.14): unique for the life of the machine, never reused.
Result<std::uint64_t> netns_cookie_of_socket(int socket);
Result<std::uint64_t> netns_cookie(int netns_fd);

// The namespace a socket belongs to (SIOCGSKNS). For a socket accepted from a unix listener that is the namespace of
// the client: the kernel makes the accepted socket in the namespace of the socket that connected.
Result<UniqueFd> netns_of_socket(int socket);

}  // namespace podlane::net
