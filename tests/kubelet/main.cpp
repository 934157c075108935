// test-kubelet: a stand-in for the kubelet (README.md).
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tests/kubelet/control.hpp"
#include "tests/kubelet/pod_resources_server.hpp"

namespace podlane::testkubelet {

namespace {

struct Options {
  std::string kubelet_dir, socket, cri, log_dir, cgroup_parent = "/podlane-test", log_level = "info";
  bool without_get = false;
};

int failed(Log& log, const Error& error) {
  log.error("cannot start", {{"error", error.message()}});
  return 1;
}

int serve(const Options& options) {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTERM);
  ::sigaddset(&stop, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  const auto level = parse_log_level(options.log_level);
  if (!level) {
    std::fprintf(stderr, "%s\n", level.error().message().c_str());
    return 2;
  }
  Log log(STDERR_FILENO, "test-kubelet", *level);
  DeviceManager devices(options.kubelet_dir + "/device-plugins", log);
  std::unique_ptr<CriClient> cri;
  if (!options.cri.empty()) cri = std::make_unique<CriClient>(options.cri);
  PodManager pods(devices, cri.get(), options.log_dir.empty() ? options.kubelet_dir + "/logs" : options.log_dir,
                  options.cgroup_parent, log);
  auto resources = PodResourcesServer::start(
      options.kubelet_dir + "/pod-resources", [&pods] { return pods.resources(); }, !options.without_get);
  if (!resources) return failed(log, resources.error());
  if (const auto started = devices.start(); !started) return failed(log, started.error());
  auto control =
      ControlServer::start(options.socket, [&](const json::Value& request) { return handle(request, devices, pods); });
  if (!control) return failed(log, control.error());
  const auto runtime = cri ? cri->version() : Result<std::string>("none");
  log.info("running; this is a stand-in for a kubelet",
           {{"control", options.socket}, {"runtime", runtime ? *runtime : runtime.error().message()}});
  int signal = 0;
  ::sigwait(&stop, &signal);
  control->reset();
  return 0;
}

}  // namespace

}  // namespace podlane::testkubelet

int main(int argc, char** argv) {
  podlane::testkubelet::Options options;
  std::string ctl_socket;
  std::vector<std::string> words;
  CLI::App app(
      "A STAND-IN for the kubelet, for podlane's tests and demo; not a kubelet and not part of the product.\n"
      "It speaks the real protocols to device plugins and to a container runtime, in the order and with the\n"
      "content that kubelet 1.36 was seen to use.\n");
  app.require_subcommand(1);
  CLI::App* serve = app.add_subcommand("serve", "Run");
  serve->add_option("--kubelet-dir", options.kubelet_dir, "Holds device-plugins/ and pod-resources/")->required();
  serve->add_option("--socket", options.socket, "Control socket for `ctl`")->required();
  serve->add_option("--cri", options.cri, "containerd's socket; without it pods are admitted and not run");
  serve->add_option("--log-dir", options.log_dir, "Logs of containers (default: <kubelet-dir>/logs)");
  serve->add_option("--cgroup-parent", options.cgroup_parent, "Parent of the pods' cgroups; empty: the runtime's own")
      ->capture_default_str();
  serve->add_option("--log-level", options.log_level)->capture_default_str();
  serve->add_flag("--without-get", options.without_get, "Pod-resources without Get, as before Kubernetes 1.34");
  CLI::App* ctl =
      app.add_subcommand("ctl", "One request to a running test kubelet; the answer goes to standard output");
  ctl->add_option("--socket", ctl_socket, "Control socket")->required();
  ctl->add_option("request", words,
                  "status | resources | restart [awayMs=N] | run-pod FILE | admit-pod FILE | remove-pod NS/NAME "
                  "[graceSeconds=N] | forget-pod NS/NAME | pre-start NS/NAME CONTAINER | restart-container NS/NAME "
                  "CONTAINER [graceSeconds=N] | new-sandbox NS/NAME [oldFirst=false] | exec NS/NAME CONTAINER "
                  "[timeoutSeconds=N] -- COMMAND…")
      ->required();
  // Words of `exec` belong to the command, "--" and its flags too: only what comes before them is parsed.
  if (argc > 4 && std::string_view(argv[1]) == "ctl" && std::string_view(argv[2]) == "--socket") {
    return podlane::testkubelet::control_main(argv[3], {argv + 4, argv + argc});
  }
  CLI11_PARSE(app, argc, argv);
  if (serve->parsed()) return podlane::testkubelet::serve(options);
  return podlane::testkubelet::control_main(ctl_socket, words);
}
