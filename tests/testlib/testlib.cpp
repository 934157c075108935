#include "tests/testlib/testlib.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace podlane::test {

namespace {

std::mutex names_mutex;
std::vector<std::string>& names() {
  static std::vector<std::string> given;
  return given;
}

}  // namespace

std::vector<std::string> names_given() {
  const std::lock_guard lock(names_mutex);
  return names();
}

std::string random_name(const std::string& prefix) {
  static constexpr char kAlphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::string name = prefix;
  for (int i = 0; i < 6; ++i) name.push_back(kAlphabet[random() % (sizeof(kAlphabet) - 1)]);
  const std::lock_guard lock(names_mutex);
  names().push_back(name);
  return name;
}

CommandResult run(const std::vector<std::string>& argv, const std::string& stdin_text,
                  const std::vector<std::string>& extra_environment) {
  ::signal(SIGPIPE, SIG_IGN);  // A child may end without reading its input.
  int input[2], output[2];
  if (::pipe2(input, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  UniqueFd input_read(input[0]), input_write(input[1]), output_read(output[0]), output_write(output[1]);

  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool replaced = false;
    for (const std::string& extra : extra_environment) {
      replaced |= text.substr(0, text.find('=') + 1) == extra.substr(0, extra.find('=') + 1);
    }
    if (!replaced) environment.push_back(text);
  }
  environment.insert(environment.end(), extra_environment.begin(), extra_environment.end());
  std::vector<char*> variables;
  for (std::string& entry : environment) variables.push_back(entry.data());
  variables.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input_read.get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, output_write.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, output_write.get(), 2);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, words[0], &actions, nullptr, words.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot run " + argv[0]);
  input_read.reset();
  output_write.reset();

  CommandResult result;
  std::thread writer([&] {
    std::size_t at = 0;
    while (at < stdin_text.size()) {
      const ssize_t n = ::write(input_write.get(), stdin_text.data() + at, stdin_text.size() - at);
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
    input_write.reset();
  });
  char chunk[4096];
  for (ssize_t n; (n = ::read(output_read.get(), chunk, sizeof(chunk))) > 0;) {
    result.out.append(chunk, static_cast<std::size_t>(n));
  }
  writer.join();
  int status = 0;
  ::waitpid(pid, &status, 0);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

std::string must_run(const std::string& command_line) {
  std::istringstream words(command_line);
  std::vector<std::string> argv;
  for (std::string word; words >> word;) argv.push_back(word);
  CommandResult result = run(argv);
  if (result.status != 0) {
    throw std::runtime_error(command_line + ": status " + std::to_string(result.status) + ": " + result.out);
  }
  return result.out;
}

namespace {
bool becomes(bool wanted, std::chrono::milliseconds within, const std::function<bool()>& predicate) {
  const auto end = std::chrono::steady_clock::now() + within;
  for (;;) {
    if (predicate() == wanted) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    ::poll(nullptr, 0, 5);
  }
}
}  // namespace

std::chrono::milliseconds patient(std::chrono::milliseconds deadline) {
  static const int factor = [] {
    const char* const text = std::getenv("PODLANE_TEST_PATIENCE");
    return text == nullptr ? 1 : std::clamp(std::atoi(text), 1, 20);
  }();
  return deadline * factor;
}

bool eventually(std::chrono::milliseconds deadline, const std::function<bool()>& predicate) {
  return becomes(true, patient(deadline), predicate);
}

bool holds_for(std::chrono::milliseconds duration, const std::function<bool()>& predicate) {
  return !becomes(false, duration, predicate);
}

void pass_time(std::chrono::microseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(end - std::chrono::steady_clock::now());
    const timespec time{.tv_sec = left.count() / 1000000000, .tv_nsec = left.count() % 1000000000};
    if (left.count() > 0) ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
  }
}

ScratchNetns::ScratchNetns(const std::string& prefix) : name_(random_name(prefix)) {
  must_run("ip netns add " + name_);
  fd_.reset(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  ip("link set lo up");
}

ScratchNetns::~ScratchNetns() {
  remove();
}

void ScratchNetns::remove() {
  if (name_.empty()) return;
  fd_.reset();
  run({"ip", "netns", "del", name_});
  name_.clear();
}

void ScratchNetns::inside(const std::function<void()>& work) const {
  std::exception_ptr failure;
  std::thread([&] {
    try {
      if (::setns(fd_.get(), CLONE_NEWNET) != 0) throw std::runtime_error("setns " + name_);
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

std::string ScratchNetns::ip(const std::string& arguments) const {
  return must_run("ip -n " + name_ + " " + arguments);
}

VethPair::VethPair(const ScratchNetns& near, const ScratchNetns& far, const std::string& near_name,
                   const std::string& far_name) {
  must_run("ip -n " + near.name() + " link add " + near_name + " type veth peer name " + far_name + " netns " +
           far.name());
  for (const auto& [netns, ifname] : {std::pair(&near, &near_name), std::pair(&far, &far_name)}) {
    netns->ip("link set " + *ifname + " up");
    must_run("ip netns exec " + netns->name() + " ethtool -K " + *ifname + " gro on");
  }
}

}  // namespace podlane::test
