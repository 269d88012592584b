// Programs and buffers of a PJRT plugin, below any graph: donation, transfers, errors, several threads, the cache.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "diptych/base/error.h"
#include "diptych/base/switches.h"
#include "diptych/graph/checksum.h"
#include "diptych/xla/hlo/element_types.h"
#include "diptych/xla/pjrt/pjrt_program.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_error;

// (a, b) -> a + b, whose first argument has attributes.
std::string sum_module(const std::string& attributes = "") {
  return fmt::format(R"(module @sum {{
  func.func public @main(%a: tensor<1024xf32> {}, %b: tensor<1024xf32>) -> tensor<1024xf32> {{
    %0 = stablehlo.add %a, %b : tensor<1024xf32>
    return %0 : tensor<1024xf32>
  }}
}})",
                     attributes);
}

const std::string kDonated = "{tf.aliasing_output = 0 : i32}";

at::Tensor values(const std::shared_ptr<PjrtBuffer>& buffer) {
  at::Tensor tensor = at::empty(buffer->sizes(), at::dtype(buffer->dtype()));
  buffer->copy_to(tensor);
  return tensor;
}

class Pjrt : public ::testing::Test {
 protected:
  std::shared_ptr<PjrtBuffer> ones() const { return PjrtBuffer::copy_from(client, at::ones({1024})); }

  std::shared_ptr<const PjrtClient> client = PjrtClient::shared();
};

using PjrtDonation = Pjrt;
using PjrtErrors = Pjrt;

TEST_F(PjrtDonation, AProgramComputesIntoADonatedBuffer) {
  for (const std::string& attribute : {kDonated, std::string("{jax.buffer_donor = true}")}) {
    const PjrtProgram program(client, sum_module(attribute), {.donated = {0}});
    const auto a = ones(), b = ones();
    const uintptr_t address = a->address();
    const auto sum = program.run({a, b}).at(0);
    EXPECT_EQ(sum->address(), address);
    EXPECT_TRUE(a->is_donated());
    EXPECT_FALSE(b->is_donated());
    EXPECT_TRUE(at::equal(values(sum), at::full({1024}, 2.0)));
  }
}

TEST_F(PjrtDonation, ADonatedBufferIsRefused) {
  const PjrtProgram program(client, sum_module(kDonated), {.donated = {0}});
  const auto a = ones(), b = ones();
  program.run({a, b});
  expect_error([&] { (void)program.run({b, a}); }, "input 1 of a program was donated");
  expect_error([&] { (void)values(a); }, "a buffer of tensor<1024xf32> was donated");
  expect_error([&] { (void)a->is_ready(); }, "was donated");
  expect_error([&] { (void)a->bytes_on_device(); }, "was donated");
  expect_error([&] { (void)program.run({b, b}); }, "donated in the same call");
}

TEST_F(PjrtDonation, AKeptInputKeepsItsValues) {
  const PjrtProgram program(client, sum_module(kDonated), {.donated = {0}});
  const auto a = ones();
  const std::vector<size_t> kept{0};
  const auto sum = program.run({a, ones()}, kept).at(0);
  EXPECT_NE(sum->address(), a->address());
  EXPECT_FALSE(a->is_donated());
  EXPECT_TRUE(at::equal(values(a), at::ones({1024})));
}

TEST_F(PjrtDonation, TensorsOverABufferAreNotWrittenTo) {
  const PjrtProgram program(client, sum_module(kDonated), {.donated = {0}});
  const auto a = ones();
  const at::Tensor view = PjrtBuffer::to_tensor(a, {1024}, at::kFloat);
  const at::Tensor source = at::ones({1024});
  program.run({a, ones()}).at(0)->wait();
  program.run({PjrtBuffer::from_tensor(client, source), ones()}).at(0)->wait();
  EXPECT_TRUE(at::equal(view, at::ones({1024})));
  EXPECT_TRUE(at::equal(source, at::ones({1024})));
}

TEST_F(PjrtDonation, ResultsAreDonatedFromRunToRun) {
  const PjrtProgram program(client, sum_module(kDonated), {.donated = {0}});
  auto sum = ones();
  const uintptr_t address = sum->address();
  const auto b = ones();
  for (int run = 0; run < 20; ++run) sum = program.run({sum, b}).at(0);
  EXPECT_EQ(sum->address(), address);
  EXPECT_TRUE(at::equal(values(sum), at::full({1024}, 21.0)));
}

TEST_F(Pjrt, BuffersKnowWhatTheyHold) {
  for (const auto dtype : {at::kBool, at::kByte, at::kLong, at::kHalf, at::kBFloat16, at::kComplexDouble}) {
    const at::Tensor tensor = at::ones({2, 3}).to(dtype);
    const auto buffer = PjrtBuffer::copy_from(client, tensor);
    EXPECT_EQ(buffer->sizes(), (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(buffer->dtype(), dtype);
    EXPECT_EQ(buffer->bytes_on_device(), tensor.nbytes());
    buffer->wait();
    EXPECT_TRUE(buffer->is_ready());
    EXPECT_TRUE(at::equal(values(buffer), tensor));
  }
}

TEST_F(Pjrt, ACopyIsOfTheTensorAsItWas) {
  at::Tensor tensor = at::ones({1 << 20});
  const auto buffer = PjrtBuffer::copy_from(client, tensor);
  tensor.zero_();
  EXPECT_TRUE(at::equal(values(buffer), at::ones({1 << 20})));
}

TEST_F(Pjrt, ABufferIsNotReadyBeforeItsProgramHasRun) {
  const PjrtProgram slow(client, R"(module @slow {
  func.func public @main(%a: tensor<512x512xf32>) -> tensor<512x512xf32> {
    %n = stablehlo.constant dense<0> : tensor<i32>
    %last = stablehlo.constant dense<30> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %r:2 = stablehlo.while(%i = %n, %x = %a) : tensor<i32>, tensor<512x512xf32>
    cond { %c = stablehlo.compare LT, %i, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %c : tensor<i1> }
    do { %j = stablehlo.add %i, %one : tensor<i32>
         %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
         stablehlo.return %j, %y : tensor<i32>, tensor<512x512xf32> }
    return %r#1 : tensor<512x512xf32>
  }
})");
  std::shared_ptr<PjrtBuffer> result;
  bool was_early = false;  // a run may be over before it is asked for, if this thread has to wait for a core
  for (int run = 0; run < 20 && !was_early; ++run) {
    result = slow.run({PjrtBuffer::copy_from(client, at::eye(512))}).at(0);
    was_early = !result->is_ready();
  }
  EXPECT_TRUE(was_early);
  result->wait();
  EXPECT_TRUE(result->is_ready());
  EXPECT_TRUE(at::equal(values(result), at::eye(512)));
}

TEST_F(Pjrt, SeveralThreadsRunOneProgram) {
  const PjrtProgram program(client, sum_module());
  const auto shared = ones();
  std::vector<std::thread> threads;
  std::vector<at::Tensor> sums(4);
  for (size_t i = 0; i < sums.size(); ++i) {
    threads.emplace_back([&, i] {
      auto sum = PjrtBuffer::copy_from(client, at::full({1024}, static_cast<double>(i)));
      for (int run = 0; run < 50; ++run) sum = program.run({sum, shared}).at(0);
      sums[i] = values(sum);
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_TRUE(at::equal(sums[i], at::full({1024}, 50.0 + static_cast<double>(i))));
  }
}

TEST_F(PjrtErrors, ARefusedProgramNamesItsNode) {
  expect_error(
      [&] {
        (void)PjrtProgram(client, R"(module @bad {
  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : (tensor<2x3xf32>, tensor<4xf32>) -> tensor<4xf32> loc("node 3 aten.add.Tensor")
    return %0 : tensor<4xf32>
  }
})");
      },
      {"[xla] compiling a program failed: ", "node 3 aten.add.Tensor"});
}

TEST_F(PjrtErrors, AResultThatDoesNotFitInMemory) {
  const PjrtProgram program(client, R"(module @huge {
  func.func public @main(%a: tensor<f32>) -> tensor<1099511627776xf32> {
    %0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<1099511627776xf32>
    return %0 : tensor<1099511627776xf32>
  }
})");
  const auto a = PjrtBuffer::copy_from(client, at::ones({}));
  expect_error([&] { (void)program.run({a}); }, {"Out of memory allocating 4398046511104 bytes", "use smaller sizes"});
  EXPECT_EQ(values(a).item<float>(), 1);  // the client goes on
}

TEST_F(PjrtErrors, InputsThatTheProgramWasNotCompiledFor) {
  const PjrtProgram program(client, sum_module());
  expect_error([&] { (void)program.run({ones()}); }, "[xla] running a program failed");
  expect_error(
      [&] {
        (void)program.run({ones(), PjrtBuffer::copy_from(client, at::ones({3}))});
      },
      "[xla] running a program failed");
  // The plugin counts bytes and no more, which is why the backend looks at dtypes and sizes itself.
  EXPECT_EQ(program.run({ones(), PjrtBuffer::copy_from(client, at::zeros({32, 32}, at::kInt))}).size(), 1U);
}

TEST_F(PjrtErrors, ADeviceThatIsNotThere) {
  const std::string words = "[xla] got device 1000, expected one of the ";
  expect_error([&] { (void)PjrtBuffer::copy_from(client, at::ones({2}), 1000); }, words);
  expect_error([&] { (void)PjrtProgram(client, sum_module(), {.devices = {1000}}); }, words);
}

TEST_F(PjrtErrors, AForkedProcess) {
  const PjrtProgram program(client, sum_module());
  const auto a = ones();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // what is not refused would hang
    const std::string words = "forked after XLA was started";
    expect_error([&] { (void)program.run({a, a}); }, words);
    expect_error([&] { (void)values(a); }, words);
    expect_error([&] { (void)ones(); }, words);
    expect_error([&] { (void)PjrtProgram(client, sum_module()); }, words);
    expect_error([&] { (void)PjrtClient::shared(); }, words);
    _exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(at::equal(values(program.run({a, a}).at(0)), at::full({1024}, 2.0)));
}

TEST_F(PjrtErrors, TensorsOfAnotherKind) {
  const auto a = ones();
  at::Tensor smaller = at::ones({3}), integers = at::ones({1024}, at::kLong);
  expect_error([&] { a->copy_to(smaller); }, "a buffer of tensor<1024xf32> got a tensor of tensor<3xf32>");
  expect_error([&] { a->copy_to(integers); }, "tensor<1024xi64>");
  expect_error([&] { (void)element_type(at::kQInt8); }, "dtype QInt8, which XLA's programs cannot hold");
  expect_error([&] { (void)element_type(PJRT_Buffer_Type_TOKEN); }, "element type");
}

TEST(PjrtPlugin, AnOldOneIsRefused) {
  expect_error([&] { (void)PjrtApi::load(DIPTYCH_OLD_PLUGIN); },
               {"has version 0.10 of the C API, expected 0.81 or a later minor one", "pip install"});
}

TEST(PjrtPlugin, APathThatLeadsToNone) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("diptych_plugin_{}", getpid());
  std::filesystem::create_directories(folder);
  const auto text = folder / "text.so";
  std::ofstream(text) << "not a library\n";
  for (const std::filesystem::path& path : {text, folder, folder / "missing.so", std::filesystem::path("/dev/null")}) {
    expect_error([&] { (void)PjrtApi::load(path); },
                 {fmt::format("[xla] cannot load the PJRT plugin '{}': ", path.string()), "DIPTYCH_PJRT_PLUGIN"});
  }
  std::filesystem::remove_all(folder);
  expect_error([&] { (void)PjrtApi::load("libm.so.6"); },
               {"'libm.so.6' is not a PJRT plugin: it has no function GetPjrtApi", "pip install"});
}

TEST(PjrtPlugin, TheOneThatTheEnvironmentNames) {
  setenv("DIPTYCH_PJRT_PLUGIN", "/nowhere/plugin.so", 1);
  expect_error([&] { (void)PjrtClient::shared(); }, "cannot load the PJRT plugin '/nowhere/plugin.so'");
  unsetenv("DIPTYCH_PJRT_PLUGIN");
  EXPECT_GE(PjrtClient::shared()->num_devices(), 1U);  // an error leaves nothing behind
}

// Runs `check` in a process that starts anew: the shared client is opened once, and other tests may have opened it.
template <class Check>
void expect_in_new_process(const char* variable, const char* value, const Check& check) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv(variable, value, 1);
        std::_Exit(check() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(PjrtPlugin, TheNumberOfCpuDevices) {
  expect_in_new_process("DIPTYCH_XLA_CPU_DEVICES", "3", [] { return PjrtClient::shared()->num_devices() == 3; });
  EXPECT_EQ(PjrtClient(PjrtApi::load(find_pjrt_plugin()), 2).num_devices(), 2U);
}

TEST(PjrtPlugin, ANumberOfDevicesThatIsNone) {
  expect_in_new_process("DIPTYCH_XLA_CPU_DEVICES", "two", [] {
    const auto message = testing::message_of([] { (void)PjrtClient::shared(); });
    return message.find("DIPTYCH_XLA_CPU_DEVICES is 'two', expected a positive whole number") != message.npos;
  });
}

// Programs that were compiled by other flags are of no use.
TEST(PjrtPlugin, TheFingerprintHoldsTheFlagsOfTheEnvironment) {
  const char* const flag = "--xla_backend_optimization_level=1";
  expect_in_new_process("XLA_FLAGS", flag,
                        [flag] { return PjrtClient::shared()->fingerprint().find(flag) != std::string::npos; });
}

// A cache in a folder of its own, and the lines that it logs.
class PjrtCache : public Pjrt {
 protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / fmt::format("diptych_cache_{}", getpid());
    std::filesystem::remove_all(folder);
    setenv("DIPTYCH_XLA_CACHE", folder.c_str(), 1);
    set_log("cache");
    set_log_sink([this](std::string_view line) { lines += line; });
  }
  void TearDown() override {
    set_log_sink({});
    unsetenv("DIPTYCH_XLA_CACHE");
    std::filesystem::remove_all(folder);
  }
  std::vector<std::filesystem::path> entries() const {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
    return paths;
  }
  // Compiles and runs the program; returns what was logged meanwhile.
  std::string compiled(const std::string& module, const PjrtProgramOptions& options = {}) {
    lines.clear();
    const auto a = ones();
    const uintptr_t address = a->address();
    const auto sum = PjrtProgram(client, module, options).run({a, ones()}).at(0);
    EXPECT_TRUE(at::equal(values(sum), at::full({1024}, 2.0)));
    EXPECT_EQ(sum->address() == address, !options.donated.empty());
    return lines;
  }

  std::filesystem::path folder;
  std::string lines;
};

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_F(PjrtCache, ProgramsAreReadAgain) {
  EXPECT_TRUE(contains(compiled(sum_module()), "was written to"));
  EXPECT_TRUE(contains(compiled(sum_module()), "was read from"));
  EXPECT_EQ(entries().size(), 1U);
  EXPECT_TRUE(contains(compiled(sum_module(kDonated), {.donated = {0}}), "was written to"));
  EXPECT_TRUE(contains(compiled(sum_module(kDonated), {.donated = {0}}), "was read from"));
  EXPECT_EQ(entries().size(), 2U);
}

TEST_F(PjrtCache, ADamagedEntryIsCompiledAgain) {
  compiled(sum_module());
  const auto path = entries().at(0);
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  std::string flipped = whole;
  flipped[whole.size() - 7] ^= 1;
  for (const auto& [text, reason] :
       {std::pair<std::string, std::string>{flipped, "its checksum is wrong"},
        {whole.substr(0, whole.size() / 2), "its checksum is wrong"},
        {"", "it is not an entry"},
        {"something else, of some length, which is not a program at all", "it is not an entry"}}) {
    std::ofstream(path, std::ios::binary) << text;
    const std::string log = compiled(sum_module());
    EXPECT_TRUE(contains(log, "is of no use and is made again") && contains(log, reason)) << log;
    EXPECT_TRUE(contains(log, "was written to"));
    EXPECT_TRUE(contains(compiled(sum_module()), "was read from"));
  }
}

// The checksum is right, so the plugin is asked, and refuses.
TEST_F(PjrtCache, AnEntryThatThePluginCannotReadIsCompiledAgain) {
  compiled(sum_module());
  const auto path = entries().at(0);
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  // A line, the checksum, the length of the key, the key, the program.
  const size_t header = whole.find('\n') + 1, length = std::stoul(whole.substr(header + 16, 16), nullptr, 16);
  const std::string rest = whole.substr(header + 16, 16 + length);
  for (const std::string& program : {std::string(), std::string("something else"), whole.substr(whole.size() - 100)}) {
    const std::string text = rest + program;
    std::ofstream(path, std::ios::binary) << whole.substr(0, header) << fmt::format("{:016x}", checksum(text)) << text;
    const std::string log = compiled(sum_module());
    EXPECT_TRUE(contains(log, "is of no use and is compiled again: [xla] loading a compiled program failed")) << log;
  }
}

TEST_F(PjrtCache, AnEntryOfAnotherProgramIsNotTaken) {
  compiled(sum_module());
  const auto first = entries().at(0);
  const std::string other = sum_module() + " ";
  std::filesystem::rename(first, folder / "kept");
  compiled(other);
  for (const auto& path : entries()) {
    if (path.extension() == ".xla")
      std::filesystem::copy_file(folder / "kept", path, std::filesystem::copy_options::overwrite_existing);
  }
  EXPECT_TRUE(contains(compiled(other), "it belongs to another program"));
}

// Nobody can make files in /proc, whatever the permissions.
TEST_F(PjrtCache, AFolderThatCannotBeWrittenTo) {
  setenv("DIPTYCH_XLA_CACHE", "/proc/self", 1);
  EXPECT_TRUE(contains(compiled(sum_module()), "programs are not kept in '/proc/self'"));
  setenv("DIPTYCH_XLA_CACHE", "/proc/self/programs", 1);
  expect_error([&] { (void)PjrtProgram(client, sum_module()); },
               {"cannot make the folder '/proc/self/programs' of DIPTYCH_XLA_CACHE"});
}

TEST_F(PjrtCache, TheUsersFolderWhereNoneIsNamedAndNoneForZero) {
  const char* const before = getenv("DIPTYCH_CACHE_DIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("DIPTYCH_CACHE_DIR", folder.c_str(), 1);
  setenv("DIPTYCH_XLA_CACHE", "0", 1);
  EXPECT_EQ(compiled(sum_module()), "");
  EXPECT_FALSE(std::filesystem::exists(folder));
  unsetenv("DIPTYCH_XLA_CACHE");
  EXPECT_TRUE(contains(compiled(sum_module()), "was written to '" + (folder / "programs").string()));
  EXPECT_TRUE(contains(compiled(sum_module()), "was read from '" + (folder / "programs").string()));
  before == nullptr ? unsetenv("DIPTYCH_CACHE_DIR") : setenv("DIPTYCH_CACHE_DIR", kept.c_str(), 1);
}

TEST_F(PjrtCache, AFolderThatCannotBeMade) {
  std::ofstream(folder) << "a file";
  expect_error([&] { (void)PjrtProgram(client, sum_module()); }, {"cannot make the folder", "DIPTYCH_XLA_CACHE"});
}

}  // namespace
}  // namespace diptych
