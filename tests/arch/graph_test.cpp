// Who may include and link what: table.txt and systems.txt against the sources and CMake's link graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kSource = std::getenv("PODLANE_SOURCE");

struct Row {
  std::string target, prefix;
  std::set<std::string> may_use;
};

std::vector<std::vector<std::string>> read_table(const fs::path& path) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return rows;
}

std::vector<Row> rows() {
  std::vector<Row> table;
  for (const auto& words : read_table(kSource / "tests/arch/table.txt")) {
    table.push_back({words.at(0), words.at(1), {words.begin() + 2, words.end()}});
  }
  return table;
}

// The row whose prefix is the longest match; of equal ones the last, which is the widest.
const Row* row_of(const std::vector<Row>& table, const std::string& path) {
  const Row* best = nullptr;
  for (const Row& row : table) {
    const bool whole = row.prefix.back() == '.' || path.starts_with(row.prefix + "/");
    if (path.starts_with(row.prefix) && whole && (best == nullptr || row.prefix.size() >= best->prefix.size())) {
      best = &row;
    }
  }
  return best;
}

struct Include {
  std::string file, header;
  bool ours;
};

std::vector<Include> includes_under(const std::vector<std::string>& folders) {
  std::vector<Include> found;
  for (const std::string& folder : folders) {
    if (!fs::exists(kSource / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kSource / folder)) {
      const std::string extension = entry.path().extension();
      if (!std::set<std::string>{".cpp", ".hpp", ".c", ".h"}.contains(extension)) continue;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("#include ") || line.size() < 11) continue;
        const std::string rest = line.substr(10);
        found.push_back(
            {fs::relative(entry.path(), kSource), rest.substr(0, rest.find_first_of("\">")), line[9] == '"'});
      }
    }
  }
  return found;
}

const std::vector<std::string> kProduct{"lib", "cni", "relay", "bpf", "deviceplugin", "nodeconfig", "ctl"};

TEST(Graph, IncludesFollowTheTable) {
  const std::vector<Row> table = rows();
  int checked = 0;
  for (const Include& include : includes_under(kProduct)) {
    if (!include.ours || include.header.find('/') == std::string::npos) continue;  // Generated headers have no folder.
    const Row* from = row_of(table, include.file);
    const Row* to = row_of(table, include.header);
    ASSERT_NE(from, nullptr) << include.file << " is in no row of tests/arch/table.txt";
    ASSERT_NE(to, nullptr) << include.file << " includes " << include.header << ", which is in no row";
    EXPECT_TRUE(from == to || from->prefix == to->prefix || from->may_use.contains(to->target) ||
                (from->prefix.back() == '.' && to->prefix.size() < from->prefix.size() &&
                 from->prefix.starts_with(to->prefix + "/")))
        << include.file << " (" << from->target << ") may not include " << include.header << " (" << to->target << ")";
    ++checked;
  }
  EXPECT_GT(checked, 100);
}

TEST(Graph, OutsideHeadersStayWhereTheyMay) {
  const auto systems = read_table(kSource / "tests/arch/systems.txt");
  for (const Include& include : includes_under(kProduct)) {
    if (include.ours) continue;
    for (const auto& row : systems) {
      if (!include.header.starts_with(row.at(0))) continue;
      EXPECT_TRUE(std::any_of(row.begin() + 1, row.end(),
                              [&](const std::string& folder) { return include.file.starts_with(folder); }))
          << include.file << " may not include <" << include.header << ">";
    }
  }
}

TEST(Graph, LinksFollowTheTable) {
  std::map<std::string, const Row*> by_target;
  const std::vector<Row> table = rows();
  for (const Row& row : table) by_target[row.target] = &row;
  for (const auto& words : read_table(PODLANE_GRAPH)) {
    const std::string& target = words.at(0);
    ASSERT_TRUE(by_target.contains(target)) << target;
    for (auto link = words.begin() + 1; link != words.end(); ++link) {
      EXPECT_NE(*link, "MISSING") << target << " is not built";
      if (!by_target.contains(*link)) continue;  // Libraries from outside: binaries_test.cpp.
      EXPECT_TRUE(by_target.at(target)->may_use.contains(*link)) << target << " may not link " << *link;
    }
  }
}

}  // namespace
