// What was compiled, in a folder: found again, bounded, and of no consequence where the folder or an entry is not what
// it should be.
#include "diptych/backend/cache_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "diptych/base/switches.h"
#include "testing/expect_error.h"

namespace diptych::detail {
namespace {

namespace fs = std::filesystem;

using diptych::testing::expect_contains;
using diptych::testing::expect_error;

// A folder of its own, and the lines that are logged meanwhile.
class CacheFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root);
    fs::create_directories(root);
    set_log("cache");
    set_log_sink([this](std::string_view line) { lines += std::string(line) + "\n"; });
  }
  void TearDown() override {
    set_log_sink({});
    set_log("");
    fs::remove_all(root);
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(folder)) paths.push_back(entry.path());
    return paths;
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& path : entries()) sum += fs::file_size(path);
    return sum;
  }

  const fs::path root = fs::temp_directory_path() / fmt::format("diptych_kernels_{}", getpid());
  const fs::path folder = root / "made" / "when needed";
  std::string lines;
};

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

CacheKind kind(uint64_t bound = uint64_t{1} << 20) {
  return {.backend = "native", .what = "kernels", .magic = "diptych kernel 1\n", .mark = ".kernel", .bound = bound};
}

// Objects have zeros and line ends in them.
const std::string kObject("an\0object\n\xff", 11);

TEST_F(CacheFolders, AnObjectIsFoundByItsKey) {
  CacheFolder cache(folder, kind());
  EXPECT_FALSE(cache.load("key"));
  EXPECT_FALSE(fs::exists(folder));
  cache.store("key", kObject);
  cache.store("another key", "another");
  EXPECT_EQ(cache.load("key"), kObject);
  EXPECT_EQ(CacheFolder(folder, kind()).load("key"), kObject);  // as in the next process
  EXPECT_EQ(cache.load("another key"), "another");
  EXPECT_FALSE(cache.load("third key"));
  EXPECT_EQ(entries().size(), 2U);
  EXPECT_EQ(fs::status(folder).permissions() & (fs::perms::group_all | fs::perms::others_all), fs::perms::none);
  EXPECT_EQ(lines, "");
}

TEST_F(CacheFolders, AnObjectIsReplaced) {
  CacheFolder cache(folder, kind());
  cache.store("key", kObject);
  cache.store("key", "newer");
  EXPECT_EQ(cache.load("key"), "newer");
  EXPECT_EQ(entries().size(), 1U);
}

TEST_F(CacheFolders, ADamagedEntryIsAMiss) {
  CacheFolder cache(folder, kind());
  cache.store("key", kObject);
  const auto path = entries().at(0);
  const auto whole = read_all(path);
  auto flipped = whole;
  flipped[whole.size() - 3] ^= 1;
  for (const auto& [text, reason] :
       {std::pair<std::string, std::string>{flipped, "its checksum is wrong"},
        {whole.substr(0, whole.size() - 1), "its checksum is wrong"},
        {"", "it is not an entry"},
        {"something else that is as long as an entry's header is", "it is not an entry"}}) {
    lines.clear();
    std::ofstream(path, std::ios::binary) << text;
    EXPECT_FALSE(cache.load("key"));
    expect_contains(lines, {"is of no use and is made again", reason});
    cache.store("key", kObject);
    EXPECT_EQ(cache.load("key"), kObject);
  }
}

TEST_F(CacheFolders, AnEntryOfAnotherKeyIsAMiss) {
  CacheFolder cache(folder, kind());
  cache.store("key", kObject);
  const auto path = entries().at(0);
  fs::rename(path, root / "kept");
  cache.store("other", "another");
  fs::rename(root / "kept", entries().at(0));
  EXPECT_FALSE(cache.load("other"));
  expect_contains(lines, "it belongs to another program");
}

TEST_F(CacheFolders, AFolderOrAnotherUsersFileInAnEntrysPlaceIsAMiss) {
  CacheFolder cache(folder, kind());
  cache.store("key", kObject);
  const auto path = entries().at(0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
    EXPECT_FALSE(cache.load("key"));
    expect_contains(lines, "another user wrote it");
  }
  fs::remove(path);
  fs::create_directories(path);
  EXPECT_FALSE(cache.load("key"));
  expect_contains(lines, "it is not a file");
}

// Nobody can make files in /proc, whatever the permissions.
TEST_F(CacheFolders, AFolderThatCannotBeWrittenToIsReportedOnce) {
  std::ofstream(root / "file") << "not a folder";
  for (const fs::path& place : {fs::path("/proc/self"), fs::path("/proc/self/kernels"), root / "file" / "kernels"}) {
    lines.clear();
    CacheFolder cache(place, kind());
    for (int i = 0; i < 3; ++i) {
      cache.store("key", kObject);
      EXPECT_FALSE(cache.load("key"));
    }
    expect_contains(lines, "kernels are not kept in '" + place.string());
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
  }
}

// A limit of the size of files stands for a disk that is full.
TEST_F(CacheFolders, AFullDiskIsReportedOnceAndLeavesNothing) {
  CacheFolder cache(folder, kind());
  cache.store("small", "a");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  for (int i = 0; i < 3; ++i) cache.store("large", std::string(100000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_FALSE(cache.load("large"));
  EXPECT_EQ(cache.load("small"), "a");
  EXPECT_EQ(entries().size(), 1U);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
}

TEST_F(CacheFolders, TheOldestGoWhenThereAreTooMany) {
  constexpr uint64_t kBound = 20000;
  CacheFolder cache(folder, kind(kBound));
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 60; ++i) {
    const auto key = fmt::format("key {}", i);
    cache.store(key, std::string(1000, 'x'));
    EXPECT_LE(bytes(), kBound);
    // Files that are written within a tick of the clock would have one age.
    for (const auto& path : entries()) {
      if (read_all(path).find(key + "x") != std::string::npos)
        fs::last_write_time(path, now + std::chrono::seconds(i - 100));
    }
    EXPECT_TRUE(cache.load("key 0")) << i;  // is used again and again, and so never the oldest
  }
  EXPECT_TRUE(cache.load("key 59"));
  EXPECT_TRUE(cache.load("key 58"));
  EXPECT_FALSE(cache.load("key 10"));
  expect_contains(lines, "the oldest kernels were removed");
}

TEST_F(CacheFolders, FilesOfOthersAreNeitherCountedNorRemoved) {
  fs::create_directories(folder);
  std::ofstream(folder / "thesis.tex") << std::string(50000, 'x');
  CacheFolder cache(folder, kind(20000));
  for (int i = 0; i < 40; ++i) cache.store(fmt::format("key {}", i), std::string(1000, 'x'));
  EXPECT_TRUE(fs::exists(folder / "thesis.tex"));
  EXPECT_GT(entries().size(), 10U);
}

TEST_F(CacheFolders, ThreadsWriteAndReadAtOnce) {
  CacheFolder cache(folder, kind(30000));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const auto key = fmt::format("key {}", i % 10);
        const std::string object(1000 + i % 10, 'x');
        cache.store(key, object);
        const auto read = cache.load(key);
        wrong += read && *read != object;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(lines.find("no use"), lines.npos) << lines;
}

TEST_F(CacheFolders, WithoutAFolderNothingIsKept) {
  CacheFolder cache("", kind());
  cache.store("key", kObject);
  EXPECT_FALSE(cache.load("key"));
  EXPECT_EQ(lines, "");
}

// A variable of the environment, as it was when this dies.
class Variable {
 public:
  explicit Variable(const char* name) : name_(name) {
    if (const char* const value = getenv(name)) before_ = value;
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST_F(CacheFolders, VariablesSayWhereTheFolderIs) {
  const Variable own("DIPTYCH_CACHE_DIR"), caches("XDG_CACHE_HOME"), home("HOME");
  setenv("DIPTYCH_CACHE_DIR", "/own", 1);
  setenv("XDG_CACHE_HOME", "/caches", 1);
  setenv("HOME", "/home/user", 1);
  EXPECT_EQ(user_cache_folder("kernels"), "/own/kernels");
  setenv("DIPTYCH_CACHE_DIR", "", 1);
  EXPECT_EQ(user_cache_folder("kernels"), "/caches/diptych/kernels");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(user_cache_folder("kernels"), "/home/user/.cache/diptych/kernels");
  unsetenv("HOME");
  EXPECT_EQ(user_cache_folder("kernels"), "");
}

}  // namespace
}  // namespace diptych::detail
