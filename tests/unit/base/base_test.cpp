// Results, files, logs and messages over SOCK_SEQPACKET.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "lib/base/file.hpp"
#include "lib/base/log.hpp"
#include "lib/base/scope_guard.hpp"
#include "lib/base/seqpacket.hpp"
#include "tests/testlib/testlib.hpp"

namespace podlane {
namespace {

using std::chrono::milliseconds;

class Folder : public ::testing::Test {
 protected:
  Folder() : path_(std::filesystem::temp_directory_path() / test::random_name("podlane-base-")) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() override { std::filesystem::remove_all(path_); }
  std::string path_;
};
using File = Folder;
using Seqpacket = Folder;

TEST(ErrorText, HasOperationDetailAndErrno) {
  const Error error = Error::from_errno(EBUSY, "bind", "eth1 queue 3").with("attach lane", "feed-3");
  EXPECT_EQ(error.code(), Errc::kBusy);
  EXPECT_EQ(error.errno_value(), EBUSY);
  EXPECT_EQ(error.message(), "attach lane feed-3: bind: eth1 queue 3: Device or resource busy (EBUSY)");
}

TEST(ScopeGuard, RunsOnceUnlessReleased) {
  int undone = 0;
  {
    ScopeGuard guard([&] { ++undone; });
    ScopeGuard moved(std::move(guard));
    ScopeGuard released([&] { undone += 10; });
    released.release();
  }
  EXPECT_EQ(undone, 1);
}

TEST_F(File, IsReplacedWhole) {
  const std::string file = path_ + "/state.json";
  EXPECT_EQ(read_file(file).error().code(), Errc::kNotFound);
  ASSERT_TRUE(write_file_atomic(file, "one", Durability::kMemory).has_value());
  ASSERT_TRUE(write_file_atomic(file, "two", Durability::kDisk, 0640).has_value());
  EXPECT_EQ(*read_file(file), "two");
  EXPECT_EQ(*read_file(file, 3), "two");
  EXPECT_EQ(read_file(file, 2).error().code(), Errc::kInvalid);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_), {}), 1) << "no temporary file is left";
  EXPECT_TRUE(remove_file(file).has_value());
  EXPECT_TRUE(remove_file(file).has_value()) << "a missing file is success";
}

TEST_F(File, DirectoriesMayExist) {
  EXPECT_TRUE(make_directories(path_ + "/a/b/c").has_value());
  EXPECT_TRUE(make_directories(path_ + "/a/b/c").has_value());
  ASSERT_TRUE(write_file_atomic(path_ + "/file", "", Durability::kMemory).has_value());
  EXPECT_FALSE(make_directories(path_ + "/file/d").has_value());
  const mode_t umask_before = ::umask(0077);
  ASSERT_TRUE(make_directories(path_ + "/for-all/private", 0700).has_value());
  ::umask(umask_before);
  struct stat parent {}, last {};
  ASSERT_EQ(::stat((path_ + "/for-all").c_str(), &parent), 0);
  ASSERT_EQ(::stat((path_ + "/for-all/private").c_str(), &last), 0);
  EXPECT_EQ(parent.st_mode & 07777, 0755U);
  EXPECT_EQ(last.st_mode & 07777, 0700U);
}

TEST(LogLine, IsOneJsonObject) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  UniqueFd reader(ends[0]), writer(ends[1]);
  Log log(writer.get(), "test");
  log.debug("not shown");
  log.warn("a \"quoted\"\nline", {{"pod", "a/b\xff"}});
  writer.reset();
  const auto text = read_fd(reader.get(), 4096, "pipe");
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(std::count(text->begin(), text->end(), '\n'), 1) << *text;
  EXPECT_NE(text->find(R"("level":"warn")"), std::string::npos) << *text;
  EXPECT_NE(text->find(R"(a \"quoted\"\u000aline)"), std::string::npos) << *text;
  EXPECT_EQ(text->find("not shown"), std::string::npos);
  EXPECT_FALSE(parse_log_level("loud").has_value());
}

TEST_F(Seqpacket, CarriesTextAndDescriptors) {
  const std::string path = path_ + "/socket";
  const auto listener = seqpacket_listen(path, 0600);
  ASSERT_TRUE(listener.has_value()) << listener.error().message();
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  auto client = seqpacket_connect(path, milliseconds(1000));
  ASSERT_TRUE(client.has_value()) << client.error().message();
  const UniqueFd server(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(server.valid());

  ASSERT_TRUE(seqpacket_send(client->get(), "hello", {0, 1}, milliseconds(1000)).has_value());
  const auto message = seqpacket_receive(server.get(), 64, 4, milliseconds(1000));
  ASSERT_TRUE(message.has_value()) << message.error().message();
  EXPECT_EQ(message->text, "hello");
  EXPECT_EQ(message->fds.size(), 2U);

  ASSERT_TRUE(seqpacket_send(client->get(), std::string(65, 'x'), {}, milliseconds(1000)).has_value());
  EXPECT_EQ(seqpacket_receive(server.get(), 64, 4, milliseconds(1000)).error().code(), Errc::kProtocol);
  EXPECT_EQ(seqpacket_receive(server.get(), 64, 4, milliseconds(10)).error().code(), Errc::kUnavailable);

  client->reset();
  const auto end = seqpacket_receive(server.get(), 64, 4, milliseconds(1000));
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->text.empty() && end->fds.empty()) << "the peer has closed";
}

TEST_F(Seqpacket, NobodyListens) {
  EXPECT_EQ(seqpacket_connect(path_ + "/none", milliseconds(100)).error().code(), Errc::kNotFound);
}

}  // namespace
}  // namespace podlane
