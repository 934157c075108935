#include "lib/journal/ipam.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "lib/base/scope_guard.hpp"
#include "lib/base/unique_fd.hpp"
#include "lib/journal/journal.hpp"
#include "lib/journal/torn_leases.hpp"

namespace podlane::journal {

namespace {

constexpr std::size_t kMaxOutputBytes = 1 << 20;
using Deadline = std::chrono::steady_clock::time_point;

std::vector<std::string> environment_of(const IpamCall& call, std::string_view command) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("CNI_")) environment.emplace_back(*entry);
  }
  environment.push_back("CNI_COMMAND=" + std::string(command));
  environment.push_back("CNI_CONTAINERID=" + call.container_id);
  environment.push_back("CNI_NETNS=" + call.netns_path);
  environment.push_back("CNI_IFNAME=" + call.ifname);
  environment.push_back("CNI_ARGS=" + call.args);
  environment.push_back("CNI_PATH=" + call.cni_path);
  return environment;
}

Result<pid_t> spawn(const std::string& program, std::vector<std::string> environment, int stdin_fd, int stdout_fd,
                    int inherit_fd) {
  std::vector<char*> variables;
  for (std::string& entry : environment) variables.push_back(entry.data());
  variables.push_back(nullptr);
  char* argv[] = {const_cast<char*>(program.c_str()), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ScopeGuard free_both([&] {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  });
  ::posix_spawn_file_actions_adddup2(&actions, stdin_fd, 0);
  ::posix_spawn_file_actions_adddup2(&actions, stdout_fd, 1);
  if (inherit_fd >= 0) ::posix_spawn_file_actions_adddup2(&actions, inherit_fd, 3);
  sigset_t pipe_signal;
  ::sigemptyset(&pipe_signal);
  ::sigaddset(&pipe_signal, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&attributes, &pipe_signal);
  // A group of its own, so that what it started ends with it and does not keep the lock that it inherited.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  // posix_spawn is vfork-like in glibc: no page tables are copied.
  errno = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv, variables.data());
  if (errno != 0) return fail_errno("run", program);
  return pid;
}

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

// Writes the input and reads the output at once, so that neither side can block the other for ever. The answer is whole
// at the end of the output, or of the process (a pidfd, -1 where there is none): what it started may keep its output
// open.
Result<std::string> converse(UniqueFd input, int output, int process, std::string_view text, Deadline deadline) {
  std::string answer;
  char chunk[8192];
  for (bool ended = false;;) {
    pollfd entries[3] = {{.fd = output, .events = POLLIN, .revents = 0},
                         {.fd = input.get(), .events = POLLOUT, .revents = 0},
                         {.fd = ended ? -1 : process, .events = POLLIN, .revents = 0}};
    const int n = ::poll(entries, 3, ended ? 0 : milliseconds_until(deadline));
    if (n < 0 && errno != EINTR) return fail_errno("poll");
    if (n == 0 && ended) return answer;
    if (n == 0) return fail(Errc::kUnavailable, "no answer in time");
    if (n < 0) continue;
    if (entries[2].revents != 0) {
      ended = true;
      input.reset();
      continue;
    }
    if (input.valid() && entries[1].revents != 0) {
      const ssize_t written = ::send(input.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
      if ((written < 0 && errno != EAGAIN && errno != EINTR) || text.empty()) input.reset();
    }
    if (entries[0].revents == 0) continue;
    const ssize_t got = ::read(output, chunk, sizeof(chunk));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return fail_errno("read");
    if (got == 0) return answer;
    answer.append(chunk, static_cast<std::size_t>(got));
    if (answer.size() > kMaxOutputBytes) return fail(Errc::kProtocol, "answer is longer than 1 MiB");
  }
}

// A plugin that has closed its output may still hang; one that answered in the last moment needs another to end.
bool ends_in_time(int process, Deadline deadline) {
  if (process < 0) return true;
  pollfd entry{.fd = process, .events = POLLIN, .revents = 0};
  deadline = std::max(deadline, std::chrono::steady_clock::now() + std::chrono::milliseconds(200));
  int n = 0;
  do {
    n = ::poll(&entry, 1, milliseconds_until(deadline));
  } while (n < 0 && errno == EINTR);
  return n > 0;
}

Result<int> wait_for(pid_t pid, bool kill_first) {
  if (kill_first) ::kill(-pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return fail_errno("waitpid");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

IpamFailure failure_of(int status, const std::string& output) {
  const auto value = json::parse(output);
  if (value && value->is_object()) {
    const auto reader = json::Reader::open(*value, "");
    const auto code = reader->optional_integer("code", 1, 65535);
    const auto message = reader->optional_string("msg");
    if (code && *code) {
      const auto details = reader->optional_string("details");
      std::string text = message && *message ? **message : "no message";
      if (details && *details && !(*details)->empty()) text += "; " + **details;
      return {Error(Errc::kDenied, text), static_cast<int>(**code)};
    }
  }
  return {Error(Errc::kIo,
                "ended with status " + std::to_string(status) + " and no CNI error: '" + output.substr(0, 200) + "'"),
          {}};
}

// A socket pair rather than a pipe for the input: MSG_NOSIGNAL works on it, so no signal disposition is touched.
std::expected<std::string, IpamFailure> run(const std::string& program, const IpamCall& call, std::string_view command,
                                            const IpamOptions& options) {
  const Deadline deadline = std::chrono::steady_clock::now() + options.timeout;
  int input[2], output[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input) != 0) {
    return std::unexpected(IpamFailure{Error::from_errno(errno, "socketpair"), {}});
  }
  UniqueFd input_child(input[0]), input_ours(input[1]);
  if (::pipe2(output, O_CLOEXEC) != 0) return std::unexpected(IpamFailure{Error::from_errno(errno, "pipe"), {}});
  UniqueFd output_ours(output[0]), output_child(output[1]);
  auto pid = spawn(program, environment_of(call, command), input_child.get(), output_child.get(), options.inherit_fd);
  if (!pid) return std::unexpected(IpamFailure{std::move(pid).error(), {}});
  input_child.reset();
  output_child.reset();
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));  // None before Linux 5.3.
  auto answer = converse(std::move(input_ours), output_ours.get(), process.get(), json::dump(call.config), deadline);
  if (answer && !ends_in_time(process.get(), deadline))
    answer = fail(Errc::kUnavailable, "answered, but did not end in time");
  const auto status = wait_for(*pid, /*kill_first=*/!answer);
  if (!answer) return std::unexpected(IpamFailure{std::move(answer).error(), {}});
  if (!status) return std::unexpected(IpamFailure{status.error(), {}});
  if (*status != 0) return std::unexpected(failure_of(*status, *answer));
  return std::move(*answer);
}

}  // namespace

Result<std::string> find_ipam_plugin(const IpamCall& call) {
  if (call.plugin.empty() || call.plugin.find('/') != std::string::npos) {
    return fail(Errc::kInvalid, "ipam.type '" + call.plugin + "' must be the file name of an IPAM plugin");
  }
  for (std::size_t at = 0; at <= call.cni_path.size();) {
    const std::size_t end = std::min(call.cni_path.find(':', at), call.cni_path.size());
    const std::string candidate = call.cni_path.substr(at, end - at) + "/" + call.plugin;
    if (end > at && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  return fail(Errc::kNotFound, "IPAM plugin '" + call.plugin + "' is not in CNI_PATH '" + call.cni_path + "'");
}

bool does_not_know_verb(const IpamFailure& failure) {
  return failure.cni_code && (*failure.cni_code == 1 || *failure.cni_code == 3 || *failure.cni_code == 4);
}

std::expected<std::string, IpamFailure> call_ipam(const IpamCall& call, std::string_view command,
                                                  const IpamOptions& options) {
  auto program = find_ipam_plugin(call);
  if (!program) return std::unexpected(IpamFailure{std::move(program).error(), {}});
  auto answer = run(*program, call, command, options);
  if (!answer) {
    IpamFailure failure = std::move(answer).error();
    failure.error = std::move(failure.error).with("IPAM " + call.plugin + " " + std::string(command), call.ifname);
    return std::unexpected(std::move(failure));
  }
  return answer;
}

Result<void> release_addresses(const AddressRecord& record, const IpamOptions& options) {
  Result<void> outcome;
  const Deadline deadline = std::chrono::steady_clock::now() + options.timeout;
  for (const IpamCall& call : record.calls) {
    auto released =
        call_ipam(call, "DEL", {std::chrono::milliseconds(milliseconds_until(deadline)), options.inherit_fd});
    if (!released && outcome) outcome = std::unexpected(std::move(released).error().error);
  }
  const auto boot_id = read_boot_id();
  if (boot_id && *boot_id != record.boot_id) {
    for (const IpamCall& call : record.calls) (void)remove_torn_leases(call, boot_time());
  }
  return outcome;
}

}  // namespace podlane::journal
