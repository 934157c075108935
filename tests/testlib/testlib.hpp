// What the suites share: namespaces and veth pairs with random names, commands, waiting. Test code may throw and use
// the ip command; it cleans up in destructors, and leak_check.cpp ends each suite.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/unique_fd.hpp"

namespace podlane::test {

std::string random_name(const std::string& prefix);  // prefix + 6 lower-case characters; fits an interface name.
std::vector<std::string> names_given();              // All that random_name() gave: the leak check looks for them.

struct CommandResult {
  int status = -1;  // Exit status; 128 + signal when killed.
  std::string out;  // stdout and stderr together.
};
CommandResult run(const std::vector<std::string>& argv, const std::string& stdin_text = {},
                  const std::vector<std::string>& extra_environment = {});
// Throws std::runtime_error with the output when the status is not 0. Words are split at blanks.
std::string must_run(const std::string& command_line);

// A deadline times PODLANE_TEST_PATIENCE (1 when unset): scripts/test.sh runs sanitized suites side by side.
std::chrono::milliseconds patient(std::chrono::milliseconds deadline);
// Polls predicate every few ms until it is true or the deadline, made patient, passes. The one way to wait in tests.
bool eventually(std::chrono::milliseconds deadline, const std::function<bool()>& predicate);
// Polls as long as that, never longer: true when predicate stayed true.
bool holds_for(std::chrono::milliseconds duration, const std::function<bool()>& predicate);

// Lets time pass where the time is the subject: the length of an outage, the pace of a sender. Never to wait for a
// thing.
void pass_time(std::chrono::microseconds duration);

// A network namespace at /run/netns/<name>, loopback up; removed at the end.
class ScratchNetns {
 public:
  explicit ScratchNetns(const std::string& prefix = "plt");
  ~ScratchNetns();
  ScratchNetns(const ScratchNetns&) = delete;
  ScratchNetns& operator=(const ScratchNetns&) = delete;
  const std::string& name() const { return name_; }
  std::string path() const { return "/run/netns/" + name_; }
  int fd() const { return fd_.get(); }
  // Runs work on a thread inside the namespace; exceptions pass through.
  void inside(const std::function<void()>& work) const;
  std::string ip(const std::string& arguments) const;  // must_run("ip -n NAME …")
  void remove();                                       // Before the end; the destructor then does nothing.

 private:
  std::string name_;
  UniqueFd fd_;
};

// A veth pair, near end in `near`, far end in `far`, both up. GRO is on at both ends, so that redirects into either end
// work: the receiving end needs NAPI (drivers/net/veth.c). XDP_TX reaches only an end with an XDP program of its own.
struct VethPair {
  VethPair(const ScratchNetns& near, const ScratchNetns& far, const std::string& near_name,
           const std::string& far_name);
};

}  // namespace podlane::test
