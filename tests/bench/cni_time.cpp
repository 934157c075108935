// bench_cni: how long ADD of a CNI plugin takes, from exec to exit, as a runtime sees it. DEL follows each ADD untimed.
//   bench_cni --plugin /opt/cni/bin/podlane --conf conf.json --netns /run/netns/x --ifname eth0 --count 20
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/base/unique_fd.hpp"
#include "tests/bench/samples.hpp"

namespace podlane::bench {
namespace {

struct Options {
  std::string plugin, conf, netns, ifname = "eth0", cni_path = "/usr/lib/cni", name, args;
  std::size_t count = 20, warm_up = 3;
  int cpu = -1;
};

// Standard input is the file itself, as cheap as a pipe that is filled. What the plugin says on both outputs goes to a
// memory file and is shown when it fails.
void call(const Options& options, const char* verb, const std::string& container) {
  std::vector<std::string> environment = {
      std::string("CNI_COMMAND=") + verb, "CNI_CONTAINERID=" + container, "CNI_NETNS=" + options.netns,
      "CNI_IFNAME=" + options.ifname,     "CNI_PATH=" + options.cni_path, "CNI_ARGS=" + options.args,
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  std::vector<char*> variables;
  for (std::string& entry : environment) variables.push_back(entry.data());
  variables.push_back(nullptr);
  std::string plugin = options.plugin;
  char* argv[] = {plugin.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, options.conf.c_str(), O_RDONLY, 0);
  const UniqueFd said(::memfd_create("said", MFD_CLOEXEC));
  ::posix_spawn_file_actions_adddup2(&actions, said.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, said.get(), 2);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, plugin.c_str(), &actions, nullptr, argv, variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot run " + plugin);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (status == 0) return;
  std::string words(4096, '\0');
  const ssize_t n = ::pread(said.get(), words.data(), words.size(), 0);
  words.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  throw std::runtime_error(plugin + " " + verb + " failed with " + std::to_string(WEXITSTATUS(status)) + ": " + words);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Times CNI ADD");
  app.add_option("--plugin", options.plugin)->required();
  app.add_option("--conf", options.conf, "file with the network configuration")->required();
  app.add_option("--netns", options.netns)->required();
  app.add_option("--ifname", options.ifname);
  app.add_option("--cni-path", options.cni_path);
  app.add_option("--cni-args", options.args);
  app.add_option("--name", options.name, "what the round is called in the result");
  app.add_option("--count", options.count);
  app.add_option("--warm-up", options.warm_up);
  app.add_option("--cpu", options.cpu);
  CLI11_PARSE(app, argc, argv);
  pin_to_cpu(options.cpu);
  Samples samples(options.count);
  Usage before{};
  for (std::size_t i = 0; i < options.warm_up + options.count; ++i) {
    if (i == options.warm_up) before = usage_now();
    const std::string container = "bench" + std::to_string(::getpid()) + "x" + std::to_string(i);
    const std::int64_t start_ns = now_ns();
    call(options, "ADD", container);
    if (i >= options.warm_up) samples.add(now_ns() - start_ns);
    call(options, "DEL", container);
  }
  print_round({.what = options.name.empty() ? options.plugin : options.name}, samples, before, usage_now());
  return 0;
}

}  // namespace
}  // namespace podlane::bench

int main(int argc, char** argv) {
  try {
    return podlane::bench::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "bench_cni: %s\n", failure.what());
    return 1;
  }
}
