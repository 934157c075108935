// Rules over the text of the repository: docs name what exists, files stay short, nothing of one machine stands in
// them.
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "deviceplugin/inventory/config.hpp"
#include "deviceplugin/inventory/config_keys.hpp"
#include "deviceplugin/kubelet/daemon_options.hpp"

namespace {

namespace fs = std::filesystem;

const fs::path kSource = std::getenv("PODLANE_SOURCE");

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every file of the repository; build trees and git's own folder are none.
std::vector<fs::path> files() {
  std::vector<fs::path> found;
  for (auto it = fs::recursive_directory_iterator(kSource); it != fs::recursive_directory_iterator(); ++it) {
    const std::string name = it->path().filename();
    if (it->is_directory() && (name == "build" || name == ".git" || name == ".cache")) it.disable_recursion_pending();
    else if (it->is_regular_file()) found.push_back(it->path());
  }
  return found;
}

bool is_code(const fs::path& path) {
  return std::set<std::string>{".cpp", ".hpp", ".c", ".h"}.contains(path.extension());
}

std::string shown(const fs::path& path) {
  return fs::relative(path, kSource);
}

TEST(Repo, FilesHaveAtMost450Lines) {
  for (const fs::path& path : files()) {
    if (!is_code(path)) continue;
    std::istringstream lines(text_of(path));
    int count = 0;
    for (std::string line; std::getline(lines, line);) ++count;
    EXPECT_LE(count, 450) << shown(path) << ": look for the seam";
  }
}

TEST(Repo, TestsDoNotSleep) {
  const std::regex sleeps("(sleep_for|usleep\\(|[^a-z_]sleep\\()");
  for (const fs::path& path : files()) {
    if (!is_code(path) || !shown(path).starts_with("tests/") || shown(path).starts_with("tests/arch/")) continue;
    EXPECT_FALSE(std::regex_search(text_of(path), sleeps)) << shown(path) << ": use eventually()";
  }
}

TEST(Repo, NothingOfTheBuildMachine) {
  std::vector<std::string> forbidden{kSource.string() + "/"};
  // Hosts that this machine gets packages from: whoever clones has others.
  const std::regex host("https?://([^/ :]+)");
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator("/etc/apt", error)) {
    if (!entry.is_regular_file() || entry.path().string().find("sources") == std::string::npos) continue;
    std::string text = text_of(entry.path());
    for (std::sregex_iterator it(text.begin(), text.end(), host), end; it != end; ++it) forbidden.push_back((*it)[1]);
  }
  for (const fs::path& path : files()) {
    const std::string text = text_of(path);
    for (const std::string& word : forbidden) {
      EXPECT_EQ(text.find(word), std::string::npos) << shown(path) << " holds " << word;
    }
  }
}

// `lib/lane/annotations.cpp`, `docs/config.md`, with folder and suffix: a path of ours when its first part is.
TEST(Repo, PathsNamedInDocsExist) {
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(kSource)) {
    if (entry.is_directory()) folders.insert(entry.path().filename());
  }
  const std::regex quoted("`([A-Za-z_.][A-Za-z0-9_./-]*/[A-Za-z0-9_./-]*)`");
  const std::regex linked("\\]\\(([A-Za-z0-9_./-]+\\.md)\\)");
  for (const fs::path& path : files()) {
    if (path.extension() != ".md") continue;
    const std::string text = text_of(path);
    for (std::sregex_iterator it(text.begin(), text.end(), quoted), end; it != end; ++it) {
      const std::string name = (*it)[1];
      if (!folders.contains(name.substr(0, name.find('/'))) || name.starts_with("build/")) continue;
      EXPECT_TRUE(fs::exists(kSource / name)) << shown(path) << " names " << name;
    }
    for (std::sregex_iterator it(text.begin(), text.end(), linked), end; it != end; ++it) {
      EXPECT_TRUE(fs::exists(path.parent_path() / (*it)[1].str())) << shown(path) << " links " << (*it)[1];
    }
  }
}

TEST(Repo, EveryTopFolderHasAReadme) {
  for (const auto& entry : fs::directory_iterator(kSource)) {
    const std::string name = entry.path().filename();
    if (!entry.is_directory() || name[0] == '.' || name == "build" || name == "docs") continue;
    EXPECT_TRUE(fs::exists(entry.path() / "README.md")) << name;
  }
}

TEST(Repo, ScriptsHaveTheirRunBit) {
  for (const char* name : {"scripts/setup.sh", "scripts/test.sh", "scripts/demo.sh", ".ci/run"}) {
    ASSERT_TRUE(fs::exists(kSource / name)) << name;
    EXPECT_NE(fs::status(kSource / name).permissions() & fs::perms::owner_exec, fs::perms::none) << name;
  }
}

TEST(Repo, ConfigurationPageHasEveryKey) {
  const std::string page = text_of(kSource / "docs/config.md");
  std::vector<std::string> keys;
  for (const auto& key : podlane::dp::kPoolKeys) keys.emplace_back(key.name);
  for (const auto& key : podlane::dp::kOtherKeys) keys.emplace_back(key);
  for (const std::string& key : keys) EXPECT_NE(page.find("\n| `" + key + "` |"), std::string::npos) << key;
}

// The DaemonSet: every directory of the daemon is mounted and named by its flag, and nothing more is asked for.
TEST(Repo, ManifestGivesTheDaemonWhatItUses) {
  const std::string text = text_of(kSource / "manifests/30-daemonset.yaml");
  const podlane::dp::DaemonOptions defaults;
  for (const std::string& part :
       {"--kubelet-dir=" + defaults.kubelet_dir, "--run-dir=" + defaults.run_dir, "--state-dir=" + defaults.state_dir,
        "--bpffs=" + defaults.bpffs, "--http=" + defaults.http, "port: " + defaults.http.substr(defaults.http.find(':') + 1),
        "mountPath: " + defaults.kubelet_dir + "/device-plugins\n", "mountPath: " + defaults.kubelet_dir + "/pod-resources\n",
        "mountPath: " + defaults.run_dir + "\n", "mountPath: " + defaults.state_dir + "\n",
        "mountPath: " + fs::path(defaults.bpffs).parent_path().string() + "\n", std::string("mountPath: /dev/net/tun\n"),
        std::string("mountPath: /run/netns\n              mountPropagation: HostToContainer\n"),
        std::string("mountPath: /var/lib/cni\n"), std::string("mountPath: /opt/cni/bin\n")}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  for (const char* part : {"privileged: true", "hostPID", "hostIPC", "allowPrivilegeEscalation: true"}) {
    EXPECT_EQ(text.find(part), std::string::npos) << part;
  }
}

TEST(Repo, ManifestsConfigurationIsRead) {
  const std::string text = text_of(kSource / "manifests/20-configmap.yaml");
  const std::string head = "podlane.json: |\n";
  const auto config = podlane::dp::parse_config(text.substr(text.find(head) + head.size()));
  EXPECT_TRUE(config.has_value()) << (config ? std::string() : config.error().message());
}

std::set<std::string> keys_of(const podlane::json::Value& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

// Of each lane kind: the keys that the parser takes are those that the schema has, none more on either side.
TEST(Repo, ConfigurationSchemaHasTheKeysOfTheParser) {
  const auto schema = podlane::json::parse(text_of(kSource / "docs/config.schema.json"));
  ASSERT_TRUE(schema) << schema.error().message();
  EXPECT_TRUE((*schema)["properties"].contains("pools"));
  const auto& defs = (*schema)["$defs"];
  EXPECT_TRUE(defs["devices"]["properties"].contains("names"));
  EXPECT_TRUE(defs["ipam"]["properties"].contains("type"));
  struct Row {
    const char* kind;
    bool podlane::dp::PoolKey::*takes;
  };
  for (const Row& row : {Row{"queue", &podlane::dp::PoolKey::queue}, Row{"veth", &podlane::dp::PoolKey::veth},
                         Row{"tun", &podlane::dp::PoolKey::tun}, Row{"onload", &podlane::dp::PoolKey::onload}}) {
    std::set<std::string> of_parser, of_schema = keys_of(defs["pool"]["properties"]);
    for (const auto& key : podlane::dp::kPoolKeys) {
      if (key.*row.takes) of_parser.emplace(key.name);
    }
    of_schema.merge(keys_of(defs[row.kind]["properties"]));
    EXPECT_EQ(of_schema, of_parser) << row.kind;
  }
}

// docs/ARCHITECTURE.md shows tests/arch/table.txt: "| `target` | folder | what it is | may use |".
TEST(Repo, ArchitecturePageHasTheTable) {
  const std::string page = text_of(kSource / "docs/ARCHITECTURE.md");
  std::istringstream table(text_of(kSource / "tests/arch/table.txt"));
  for (std::string line; std::getline(table, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string target, folder, may_use;
    words >> target >> folder;
    for (std::string word; words >> word;) may_use += " " + word;
    const std::size_t at = page.find("\n| `" + target + "` | " + folder + " | ");
    ASSERT_NE(at, std::string::npos) << target << " is not on the page, or has another folder there";
    const std::string row = page.substr(at + 1, page.find('\n', at + 1) - at - 1);
    EXPECT_TRUE(row.ends_with(" |" + may_use + " |")) << row << " should end with" << may_use;
  }
}

TEST(Repo, ConfigurationPageExamplesAreRead) {
  const std::string page = text_of(kSource / "docs/config.md");
  int examples = 0;
  for (std::size_t at = 0; (at = page.find("```json\n", at)) != std::string::npos; ++examples) {
    at += 8;
    const auto config = podlane::dp::parse_config(page.substr(at, page.find("```", at) - at));
    EXPECT_TRUE(config.has_value()) << (config ? std::string() : config.error().message());
  }
  EXPECT_GT(examples, 0);
}

}  // namespace
