// The verifier refuses each thing that the header says it does, and names the line.
#include "diptych/native/kernel/verify.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/native/parse_kernel.h"
#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_contains;
using testing::message_of;
using testing::Parts;

// %0 : f32 = load x0[8*d0 + d1], %1 : f32 = exp %0, %2 : i64 = index d0, %3 : f32 = reduce sum %1 over d1.
Kernel good_kernel() {
  return parse_kernel(R"(kernel good(d0=s0, d1=8) {
    x0 : f32
    y0 : f32
    %0 : f32 = load x0[8*d0 + d1]
    %1 : f32 = exp %0
    %2 : i64 = index d0
    %3 : f32 = reduce sum %1 over d1
    store y0[d0] = %3
  })");
}

// Expects that a change of the good kernel is refused with these words.
template <class Change>
void expect_problem(const Change& change, const Parts& parts) {
  Kernel kernel = good_kernel();
  change(kernel);
  const auto problem = find_problem(kernel);
  ASSERT_TRUE(problem) << "nothing was found, expected '" << parts.all[0] << "'";
  expect_contains(problem->what, parts);
}

// Expects that a body of a kernel over d0=s0 and d1=8, with x0 : f32, x1 : bf16 and y0 : f32, is refused.
void expect_refused(const std::string& body, const Parts& parts) {
  const auto text = fmt::format("kernel f(d0=s0, d1=8) {{\nx0 : f32\nx1 : bf16\ny0 : f32\n{}\n}}", body);
  expect_contains(message_of([&] { parse_kernel(text); }), parts);
}

KernelScalar& scalar(Kernel& kernel, size_t value) { return std::get<KernelScalar>(kernel.values[value].made_by); }
KernelLoad& load(Kernel& kernel) { return std::get<KernelLoad>(kernel.values[0].made_by); }
KernelReduce& reduce(Kernel& kernel) { return std::get<KernelReduce>(kernel.values[3].made_by); }

TEST(KernelVerify, AcceptsTheKernelThatTheTestsChange) { EXPECT_FALSE(find_problem(good_kernel())); }

TEST(KernelVerify, WantsAName) {
  for (const char* name : {"", "2nd", "a b", "a\n"})
    expect_problem([&](Kernel& kernel) { kernel.name = name; }, "the name has to be letters");
}

TEST(KernelVerify, LimitsDimsAndExtents) {
  expect_problem([](Kernel& kernel) { kernel.extents.resize(65); }, "it has 65 dims, expected at most 64");
  expect_problem([](Kernel& kernel) { kernel.extents[1] = {-8}; },
                 "the extent of d1 is -8, expected no negative number");
  expect_problem([](Kernel& kernel) { kernel.extents[1] = {0, 2}; }, "the extent of d1 is 0*s2");
}

TEST(KernelVerify, LimitsSymbols) {
  expect_problem([](Kernel& kernel) { kernel.extents[0].symbol = -2; }, "got the symbol s-2, expected one from s0");
  expect_problem(
      [](Kernel& kernel) {
        load(kernel).map.add(offset_term({1, 1 << 20}));
      },
      {"'%0 : f32 = load x0[s1048576", "got the symbol s1048576"});
}

TEST(KernelVerify, KnowsTheDtypesOfMemory) {
  expect_problem([](Kernel& kernel) { kernel.inputs[0] = at::kQInt8; }, "x0 is QInt8, expected one of");
  expect_problem([](Kernel& kernel) { kernel.outputs[0] = at::kComplexHalf; }, "y0 is");
}

TEST(KernelVerify, WantsOperandsThatAreDefinedAbove) {
  for (const int32_t operand : {-1, 1, 7}) {
    expect_problem([&](Kernel& kernel) { scalar(kernel, 1).operands[0] = operand; },
                   {"'%1 : f32 = exp", "is not defined by a line above"});
  }
  expect_problem([](Kernel& kernel) { reduce(kernel).operand = 3; }, "%3 is not defined by a line above");
  expect_problem([](Kernel& kernel) { kernel.stores[0].value = 4; },
                 {"'store y0[d0] = %4'", "%4 is not defined by a line above"});
  expect_problem([](Kernel& kernel) { load(kernel).map.add(value_term({1}, 0)); }, "%0 is not defined");
}

TEST(KernelVerify, WantsDimsThatThereAre) {
  expect_problem([](Kernel& kernel) { load(kernel).map.add(dim_term({1}, 2)); }, "got d2, but the kernel has 2 dims");
  expect_problem([](Kernel& kernel) { reduce(kernel).over = DimSet::of(5); }, "got d5, but the kernel has 2 dims");
  expect_problem([](Kernel& kernel) { reduce(kernel).over = {}; }, "it reduces over no dim");
}

TEST(KernelVerify, WantsMemoryThatThereIs) {
  expect_problem([](Kernel& kernel) { load(kernel).input = 1; }, "got x1, but the kernel has 1 inputs");
  expect_problem([](Kernel& kernel) { kernel.stores[0].output = -1; }, "got y-1, but the kernel has 1 outputs");
}

TEST(KernelVerify, WantsIndicesOfI64) {
  expect_problem([](Kernel& kernel) { kernel.stores[0].map.add(value_term({1}, 0)); },
                 {"'store y0[d0 + %0] = %3'", "the index %0 is f32, expected i64; add a cast"});
  expect_refused("%0 : i32 = index d0\nstore y0[%0] = %0", "the result is i32, expected i64");
}

TEST(KernelVerify, WantsTheDtypeOfTheInput) {
  expect_refused("%0 : f32 = load x1[d0]", "the result is f32, but x1 is bf16; load that and add a cast");
  expect_refused("%0 : f32 = load x0[d0]\n%1 : f32 = load x0[d0] if %0 else %0",
                 "the condition %0 is f32, expected b8");
  expect_refused("%0 : b8 = constant true\n%1 : f32 = load x0[d0] if %0 else %0",
                 "the other value %0 is b8, expected f32");
}

TEST(KernelVerify, WantsWhatTheTableOfOperationsSays) {
  expect_refused("%0 : f32 = load x0[d0]\n%1 : f32 = add %0", "add takes 2 operands, got 1");
  expect_refused("%0 : f32 = load x0[d0]\n%1 : i32 = add %0, %0", "the result is i32, expected f32");
  expect_refused("%0 : i64 = index d0\n%1 : i64 = exp %0", "exp takes f32, f64, c64, c128, got i64");
  expect_refused("%0 : f32 = load x0[d0]\n%1 : i64 = index d0\n%2 : f32 = add %0, %1",
                 "the operand %1 is i64, expected f32");
  expect_refused("%0 : f32 = load x0[d0]\n%1 : f32 = select %0, %0, %0", "the condition %0 is f32, expected b8");
  expect_problem([](Kernel& kernel) { scalar(kernel, 1).op = nullptr; }, "it has no operation");
}

TEST(KernelVerify, KeepsHalvesToStorage) {
  expect_refused("%0 : bf16 = load x1[d0]\n%1 : bf16 = add %0, %0",
                 {"got bf16", "f16 and bf16 are loaded, stored and cast only: cast to f32 first"});
  expect_refused("%0 : bf16 = load x1[d0]\n%1 : bf16 = reduce sum %0 over d0", "cast to f32 first");
  expect_refused("%0 : bf16 = constant 1", "cast to f32 first");
}

TEST(KernelVerify, WantsWhatTheTableOfReductionsSays) {
  expect_refused("%0 : c64 = constant (1, 2)\n%1 : c64 = reduce max %0 over d0", "max takes");
  expect_refused("%0 : f32 = load x0[d0]\n%1 : f32 = reduce argmax %0 over d0", "the result is f32, expected i64");
  expect_refused("%0 : f32 = load x0[d0]\n%1 : f64 = reduce max %0 over d0", "the result is f64, expected f32");
  expect_refused("%0 : f32 = load x0[d0]\n%1 : i64 = reduce sum %0 over d0",
                 "sum accumulates in the dtype of its result, i64, which has to be one of");
  expect_refused("%0 : f32 = load x0[d0]\n%1 : bf16 = reduce sum %0 over d0", "sum accumulates in the dtype");
  expect_problem([](Kernel& kernel) { reduce(kernel).reduction = nullptr; }, "it has no reduction");
}

TEST(KernelVerify, WantsConstantsThatTheirDtypeHolds) {
  expect_refused("%0 : u8 = constant 256", "u8 does not hold this number exactly");
  expect_refused("%0 : u8 = constant -1", "u8 does not hold this number exactly");
  const auto constant = [](at::ScalarType dtype, KernelNumber number) {
    return [=](Kernel& kernel) { kernel.values[0] = {dtype, KernelConstant{number}}; };
  };
  expect_problem(constant(at::kFloat, {0.1}), "f32 does not hold this number exactly");
  expect_problem(constant(at::kFloat, {1e300}), "f32 does not hold this number exactly");
  expect_problem(constant(at::kFloat, {int64_t{1}}), "f32 does not hold this number exactly");
  expect_problem(constant(at::kBool, {int64_t{2}}), "b8 does not hold this number exactly");
  expect_problem(constant(at::kDouble, {std::complex<double>(1, 2)}), "f64 does not hold this number exactly");
}

TEST(KernelVerify, WantsEveryOutputStoredInItsDtype) {
  expect_problem([](Kernel& kernel) { kernel.stores.clear(); }, "the output y0 is never stored");
  expect_problem([](Kernel& kernel) { kernel.stores[0].value = 2; }, "the value %2 is i64, expected f32; add a cast");
  expect_problem([](Kernel& kernel) { kernel.outputs.clear(); }, "it has no output");
  const auto text = "kernel f() { y0 : b8 %0 : b8 = constant true store add y0[0] = %0 }";
  expect_contains(message_of([&] { parse_kernel(text); }), "b8 has no sum");
}

TEST(KernelVerify, TellsStoresThatMeetThemselves) {
  const std::string value = "%0 : f32 = load x0[8*d0 + d1]\n%1 : i64 = index d0 - d1\n";
  expect_refused(value + "store y0[d1] = %0", "it writes one element at each position along d0; reduce over d0 before");
  expect_refused(value + "store y0[4] = %0", "it writes one element at each position along d0");
  const auto overlap = [](const std::string& extents, const std::string& map) {
    return message_of([&] {
      parse_kernel(
          fmt::format("kernel f({}) {{ x0 : f32 y0 : f32 %0 : f32 = load x0[d0] store y0[{}] = %0 }}", extents, map));
    });
  };
  expect_contains(overlap("d0=4, d1=8", "4*d0 + d1"), "its map sends several positions along d0 and d1 to one element");
  expect_contains(overlap("d0=4, d1=8", "d0 - d1"), "along d0 and d1 to one element");
  for (const auto& [extents, map] : {std::pair{"d0=4, d1=8", "8*d0 + d1"},
                                     {"d0=4, d1=8", "d0 + 4*d1"},
                                     {"d0=4, d1=2", "4*d0 + 2*d1"},
                                     {"d0=4, d1=8", "s0*d0 + d1"},
                                     {"d0=1", "0"},
                                     {"d0=0, d1=8", "0"}})
    EXPECT_EQ(overlap(extents, map), "nothing was thrown") << map;
  // What a value decides cannot be told, and sums may meet.
  for (const char* store : {"store y0[%1] = %0", "store add y0[d1] = %0"}) {
    const auto text = fmt::format("kernel f(d0=s0, d1=8) {{\nx0 : f32\ny0 : f32\n{}{}\n}}", value, store);
    EXPECT_NO_THROW(parse_kernel(text)) << store;
  }
}

TEST(KernelVerify, KeepsMapsCanonical) {
  IndexMap a, b;
  a.add(dim_term({3}, 1)).add(offset_term({5, 2})).add(dim_term({1}, 0)).add(dim_term({-1}, 1)).add(dim_term({0}, 4));
  b.add(dim_term({1}, 0)).add(dim_term({2}, 1)).add(offset_term({5, 2})).add(offset_term({1})).add(offset_term({-1}));
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.terms().size(), 3U);
  const auto too_far = message_of([&] { a.add(dim_term({std::numeric_limits<int64_t>::max()}, 1)); });
  expect_contains(too_far, "which leaves 64 bits; use smaller coefficients");
}

}  // namespace
}  // namespace diptych
