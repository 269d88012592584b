// Text of LLVM IR becomes code that runs: with the process's functions, from several threads, freed and made again; and
// what is wrong with a text is said.
#include "diptych/native/jit/jit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>
#include <vector>

#include "backends/native/cross_assembly.h"
#include "diptych/base/switches.h"
#include "diptych/native/jit/llvm_library.h"
#include "diptych/native/jit/profiler_names.h"
#include "testing/expect_error.h"

namespace diptych::detail {
namespace {

using diptych::testing::expect_contains;
using diptych::testing::message_of;

/// out[i] = a[i] + b[i] for i below n, which the width of vectors divides.
std::string add_text(const std::string& function, int width = host_target().vector_bytes / 4) {
  const auto vector = fmt::format("<{} x float>", width);
  return fmt::format(R"(
define void @{0}(ptr %out, ptr %a, ptr %b, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %po = getelementptr float, ptr %out, i64 %i
  %va = load {1}, ptr %pa, align 4
  %vb = load {1}, ptr %pb, align 4
  %sum = fadd {1} %va, %vb
  store {1} %sum, ptr %po, align 4
  %next = add i64 %i, {2}
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
)",
                     function, vector, width);
}

/// f() = `value`
std::string constant_text(int value) { return fmt::format("define i32 @f() {{\n  ret i32 {}\n}}\n", value); }

int call_f(const MachineCode& code) { return reinterpret_cast<int (*)()>(code.address("f"))(); }

// Kernels are kept in a folder of this process and not in the user's.
class OwnFolder : public ::testing::Environment {
 public:
  void SetUp() override { setenv("DIPTYCH_CACHE_DIR", folder.c_str(), 1); }
  void TearDown() override { std::filesystem::remove_all(folder); }

 private:
  const std::string folder = std::filesystem::temp_directory_path() / fmt::format("diptych_jit_{}", getpid());
};
[[maybe_unused]] const auto* const own_folder = ::testing::AddGlobalTestEnvironment(new OwnFolder);

TEST(Jit, AddsVectors) {
  const auto code = compile_llvm(add_text("add"), "add");
  const auto add = reinterpret_cast<void (*)(float*, const float*, const float*, int64_t)>(code->address("add"));
  std::vector<float> a(64), b(64), out(64);
  for (int i = 0; i < 64; ++i) a[i] = 0.5F * i, b[i] = 100.F + i;
  add(out.data(), a.data(), b.data(), 64);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], a[i] + b[i]);
}

TEST(Jit, CallsSleefOfTheHostsWidth) {
  const int width = host_target().vector_bytes / 4;
  if (width < 8) GTEST_SKIP() << "LibTorch carries SLEEF's functions of 32 and 64 bytes only";
  const auto text = fmt::format(R"(
declare <{0} x float> @Sleef_expf{0}_u10(<{0} x float>)
define void @exp(ptr %out, ptr %in) {{
  %x = load <{0} x float>, ptr %in, align 4
  %y = call <{0} x float> @Sleef_expf{0}_u10(<{0} x float> %x)
  store <{0} x float> %y, ptr %out, align 4
  ret void
}}
)",
                                width);
  const auto code = compile_llvm(text, "exp");
  std::vector<float> in(width), out(width);
  for (int i = 0; i < width; ++i) in[i] = 0.25F * i - 1.F;
  reinterpret_cast<void (*)(float*, const float*)>(code->address("exp"))(out.data(), in.data());
  for (int i = 0; i < width; ++i) EXPECT_NEAR(out[i], std::exp(in[i]), 1e-6F * std::exp(in[i]));
}

TEST(Jit, CallsTheMathematicsLibrary) {
  const auto code = compile_llvm(
      "declare double @lgamma(double)\n"
      "define double @f(double %x) {\n  %y = call double @lgamma(double %x)\n  ret double %y\n}\n",
      "lgamma");
  EXPECT_DOUBLE_EQ(reinterpret_cast<double (*)(double)>(code->address("f"))(4.5), std::lgamma(4.5));
}

TEST(Jit, TextThatDoesNotParseIsRefusedWithItsPlace) {
  const auto error = message_of([] { compile_llvm("define i32 @f() {\n  ret i64 %nothing\n}\n", "kernel_7"); });
  expect_contains(error, "[native] LLVM could not compile kernel_7");
  expect_contains(error, "kernel_7:2:");
}

TEST(Jit, TextThatDoesNotVerifyIsRefused) {
  const auto error = message_of([] {
    compile_llvm(
        "define i32 @f() {\na:\n  br label %b\nb:\n  %x = phi i32 [ 1, %a ], [ 2, %c ]\n  ret i32 %x\n"
        "c:\n  ret i32 %x\n}\n",
        "phis");
  });
  expect_contains(error, "PHINode should have one entry for each predecessor");
}

TEST(Jit, AFunctionThatThereIsNoneOfIsNamed) {
  const auto error = message_of([] {
    compile_llvm(
        "declare i32 @no_such_function()\ndefine i32 @f() {\n  %x = call i32 @no_such_function()\n  ret i32 %x\n}\n",
        "caller");
  });
  expect_contains(error, "no_such_function");
}

TEST(Jit, CodeThatCannotBeMadeIsRefusedAndTheNextIsMade) {
  const auto error =
      message_of([] { compile_llvm("define void @f() gc \"no_such\" {\n  ret void\n}\n", "collected"); });
  expect_contains(error, "unsupported GC: no_such");
  EXPECT_EQ(call_f(*compile_llvm(constant_text(3), "constant")), 3);
}

TEST(Jit, AnAddressThatTheTextDoesNotDefineIsRefused) {
  const auto code = compile_llvm(constant_text(1), "constant");
  expect_contains(message_of([&] { code->address("g"); }), "got 'g', which is no function of constant");
}

TEST(Jit, TwoModulesMayHaveFunctionsOfOneName) {
  const auto one = compile_llvm(constant_text(1), "same");
  const auto two = compile_llvm(constant_text(2), "same");
  EXPECT_EQ(call_f(*one), 1);
  EXPECT_EQ(call_f(*two), 2);
}

TEST(Jit, FunctionsOfAModuleCallEachOther) {
  const auto code = compile_llvm(
      "define internal i32 @g(i32 %x) noinline {\n  %y = mul i32 %x, %x\n  ret i32 %y\n}\n"
      "define i32 @f() {\n  %y = call i32 @g(i32 7)\n  ret i32 %y\n}\n",
      "two");
  EXPECT_EQ(call_f(*code), 49);
  expect_contains(message_of([&] { code->address("g"); }), "no function of two");  // internal
}

TEST(Jit, ManyThreadsCompileAtOnce) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t, &wrong] {
      for (int i = 0; i < 10; ++i)
        wrong[t] += call_f(*compile_llvm(constant_text(100 * t + i), "thread")) != 100 * t + i;
    });
  }
  for (auto& thread : threads) thread.join();
  for (int t = 0; t < 8; ++t) EXPECT_EQ(wrong[t], 0);
}

TEST(Jit, CodeIsFreedAndMadeAgain) {
  for (int i = 0; i < 200; ++i) EXPECT_EQ(call_f(*compile_llvm(constant_text(i), "again")), i);
}

TEST(Jit, OneTextIsCompiledOnceWhileItsCodeLives) {
  const auto one = compile_llvm(constant_text(11), "one");
  EXPECT_EQ(compile_llvm(constant_text(11), "two"), one);
  EXPECT_NE(compile_llvm(constant_text(12), "one"), one);
}

TEST(Jit, CodeIsReadFromTheFolderOnceItHasDied) {
  std::string lines;
  set_log("kernels");
  set_log_sink([&](std::string_view line) { lines += std::string(line) + "\n"; });
  static int value = 271828;  // another one where the test is repeated
  ++value;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call_f(*compile_llvm(constant_text(value), "kept")), value);
  set_log_sink({});
  set_log("");
  expect_contains(lines, {"kept was compiled in ", "kept was read from the cache, "});
  EXPECT_EQ(lines.find("compiled", lines.find("compiled") + 1), lines.npos) << lines;
}

TEST(Jit, CodeOutlivesOthersThatWereMadeAfterIt) {
  const auto first = compile_llvm(constant_text(1), "first");
  for (int i = 0; i < 20; ++i) compile_llvm(constant_text(i), "later");
  EXPECT_EQ(call_f(*first), 1);
}

// A system may let no process make code; Linux does so for a process that asks for it, and here that is a child.
TEST(Jit, WithoutExecutableMemoryCodeIsRefused) {
  constexpr int kSetDenyWriteExecute = 65, kRefuseExecGain = 1, kNotDenied = 77;  // from Linux 6.3 on
  const auto refused = [] {
    if (prctl(kSetDenyWriteExecute, kRefuseExecGain, 0, 0, 0) != 0) std::_Exit(kNotDenied);
    const auto message = message_of([] { compile_llvm(constant_text(5), "denied"); });
    std::_Exit(message.find("LLVM could not compile denied") == message.npos ? 1 : 0);
  };
  const pid_t child = fork();
  if (child == 0) refused();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == kNotDenied) GTEST_SKIP() << "the kernel denies nothing";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Jit, AssemblyIsReadable) {
  const auto text = assembly(add_text("add_them"), "add");
  expect_contains(text, "add_them:");
  expect_contains(text, "ret");
#ifdef __x86_64__
  expect_contains(text, host_target().vector_bytes == 16 ? "addps" : "vaddps");
  expect_contains(text, host_target().vector_bytes == 64 ? "%zmm" : host_target().vector_bytes == 32 ? "%ymm" : "%xmm");
#endif
}

TEST(Jit, FunctionsAreNamedForPerfAndDebuggers) {
  const auto object = compile_module(constant_text(9), "named", host_target(), CodeForm::kObject);
  const auto loaded = load_object(
      object, "named", [](const char*) -> void* { return nullptr; }, /*for_debuggers=*/true);
  const auto f = loaded.functions.at("f");
  EXPECT_EQ(reinterpret_cast<int (*)()>(f.address)(), 9);
  EXPECT_GT(f.bytes, 0U);
  write_perf_names(loaded.functions);
  const auto path = fmt::format("{}/perf-{}.map", P_tmpdir, getpid());
  std::ifstream file(path);
  uintptr_t address = 0, bytes = 0;
  std::string name;
  file >> std::hex >> address >> bytes >> name;
  EXPECT_EQ(address, reinterpret_cast<uintptr_t>(f.address));
  EXPECT_EQ(bytes, f.bytes);
  EXPECT_EQ(name, "f");
  std::filesystem::remove(path);
}

// Made and assembled, never run: there was no such machine.
TEST(Jit, TheSameTextIsNeonCodeForArm) {
  for (const int width : {4, 8}) {
    const auto text = diptych::testing::cross_assembly(add_text("add", width), "aarch64-linux-gnu");
    if (!text) GTEST_SKIP() << "llc-19 is not installed";
    expect_contains(*text, {"add:", "fadd\tv", ".4s"});
  }
}

TEST(Jit, TheHostIsNamed) {
  EXPECT_FALSE(host_target().cpu.empty());
  EXPECT_FALSE(host_target().triple.empty());
  EXPECT_TRUE(host_target().vector_bytes == 16 || host_target().vector_bytes == 32 || host_target().vector_bytes == 64);
}

TEST(Jit, AVariableSaysThatKernelsAreNotKept) {
  const char* const before = getenv("DIPTYCH_KERNEL_CACHE");
  const std::string kept = before == nullptr ? "" : before;
  unsetenv("DIPTYCH_KERNEL_CACHE");
  EXPECT_TRUE(keeps_kernels());
  setenv("DIPTYCH_KERNEL_CACHE", "0", 1);
  EXPECT_FALSE(keeps_kernels());
  setenv("DIPTYCH_KERNEL_CACHE", "off", 1);
  EXPECT_EQ(message_of([] { (void)keeps_kernels(); }),
            "[DIPTYCH_KERNEL_CACHE] got 'off', expected 0 or 1; correct it, or unset it");
  before == nullptr ? unsetenv("DIPTYCH_KERNEL_CACHE") : setenv("DIPTYCH_KERNEL_CACHE", kept.c_str(), 1);
}

// As its own CPU, a machine is what it is; as a lesser one, code is for that and runs here.
TEST(Jit, AnotherCpuIsWhatBothCanDo) {
  const HostTarget host = find_host_target();
  EXPECT_FALSE(find_host_as("no such CPU"));
  EXPECT_EQ(find_host_as(host.cpu).value_or(HostTarget()).vector_bytes, host.vector_bytes);
  if (!host.triple.starts_with("x86_64-")) return;
  const HostTarget plain = find_host_as("x86-64").value(), haswell = find_host_as("haswell").value();
  EXPECT_EQ(plain.vector_bytes, 16);
  EXPECT_EQ(haswell.vector_bytes, std::min(host.vector_bytes, 32));
  expect_contains(plain.features, {"-avx2", "-avx512f", "+sse2"});
  const auto wide = compile_module(add_text("add", 16), "add", haswell, CodeForm::kAssembly);
  EXPECT_EQ(wide.find("%zmm"), wide.npos);
}

// Read once, so that only another process shows it.
TEST(Jit, TheEnvironmentNamesTheCpu) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto with_cpu = [](const char* cpu) {
    setenv("DIPTYCH_CPU", cpu, 1);
    std::cerr << message_of([] { std::cerr << "made for " << host_target().cpu; });
    std::_Exit(0);
  };
  EXPECT_EXIT(with_cpu("no-such-cpu"), ::testing::ExitedWithCode(0),
              "\\[DIPTYCH_CPU\\] got 'no-such-cpu', expected a CPU by LLVM's name");
#ifdef __x86_64__
  EXPECT_EXIT(with_cpu("x86-64"), ::testing::ExitedWithCode(0), "made for x86-64");
#endif
}

}  // namespace
}  // namespace diptych::detail
