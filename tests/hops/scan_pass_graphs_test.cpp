// Each pass over scans, graph text in and graph text out.
#include "diptych/graph/identical.h"
#include "diptych/scan_passes/drop_constant_carries.h"
#include "diptych/scan_passes/drop_dead_scan_parts.h"
#include "diptych/scan_passes/hoist_from_scans.h"
#include "diptych/scan_passes/regroup_scan_sums.h"
#include "diptych/scan_passes/reuse_scan_stacks.h"
#include "diptych/scan_passes/sink_from_scans.h"
#include "hops/scan_graphs.h"
#include "hops/unrolled.h"
#include "testing/pass_case.h"

namespace diptych::testing {

using namespace detail;
namespace {

// As expect_pass, for graphs that the interpreter alone can run, and with sums in another order.
template <class Pass>
void expect_scan_pass(Pass pass, std::string_view before, std::string_view after) {
  const Graph source = parse_scan(before);
  const Graph result = pass(source);
  EXPECT_EQ(result.code(), after);
  EXPECT_TRUE(identical(parse_scan(result.code()), result));
  const auto expected = Program(source).run(random_inputs(source));
  EXPECT_TRUE(same_tensors(Program(result).run(random_inputs(source)), expected,
                           {.rtol = 1e-12, .atol = 1e-12, .equal_nan = true}));
  EXPECT_TRUE(identical(pass(result), result)) << pass(result).code();
}

TEST(RegroupScanSums, AddsUpFirstWhatIsKnownBeforeTheLoop) {
  expect_scan_pass(regroup_scan_sums,
                   R"(graph f(%0 h : f64[2,3], %1 x : f64[5,2,3], %2 w : f64[3,3], %3 u : f64[3,3], %4 b : f64[3])
  %5 : f64[2,3], %6 : f64[5,2,3] = hop.scan(init=[%0], xs=[%1], free=[%2, %3, %4], length=5, reverse=false) {
    graph body(%0 h : f64[2,3], %1 x : f64[2,3], %2 w : f64[3,3], %3 u : f64[3,3], %4 b : f64[3])
      %5 : f64[2,3] = aten.mm(%0, %3)
      %6 : f64[2,3] = aten.mm(%1, %2)
      %7 : f64[2,3] = aten.add.Tensor(%6, %5)
      %8 : f64[2,3] = aten.add.Tensor(%7, %4)
      %9 : f64[2,3] = aten.tanh(%8)
      return (%9 h, %9 y)
  }
  return (%5 h)
)",
                   R"(graph f(%0 h : f64[2,3], %1 x : f64[5,2,3], %2 w : f64[3,3], %3 u : f64[3,3], %4 b : f64[3])
  %5 : f64[2,3], %6 : f64[5,2,3] = hop.scan(init=[%0], xs=[%1], free=[%2, %3, %4], length=5, reverse=false) {
    graph body(%0 h : f64[2,3], %1 x : f64[2,3], %2 w : f64[3,3], %3 u : f64[3,3], %4 b : f64[3])
      %5 : f64[2,3] = aten.mm(%0, %3)
      %6 : f64[2,3] = aten.addmm(%4, %1, %2)  # by regroup_scan_sums
      %7 : f64[2,3] = aten.add.Tensor(%6, %5)  # by regroup_scan_sums
      %8 : f64[2,3] = aten.tanh(%7)
      return (%8 h, %8 y)
  }
  return (%5 h)
)");
}

TEST(HoistFromScans, MakesOneProductOfAllSteps) {
  expect_scan_pass(hoist_from_scans, R"(graph f(%0 h : f64[2,3], %1 x : f64[5,2,3], %2 w : f64[3,3], %3 u : f64[3,3])
  %4 : f64[2,3], %5 : f64[5,2,3] = hop.scan(init=[%0], xs=[%1], free=[%2, %3], length=5, reverse=false) {
    graph body(%0 h : f64[2,3], %1 x : f64[2,3], %2 w : f64[3,3], %3 u : f64[3,3])
      %4 : f64[3,3]{1,3} = aten.t(%2)
      %5 : f64[2,3] = aten.mm(%1, %4)
      %6 : f64[2,3] = aten.mm(%0, %3)
      %7 : f64[2,3] = aten.add.Tensor(%5, %6)
      %8 : f64[2,3] = aten.tanh(%7)
      return (%8 h, %8 y)
  }
  return (%4 h, %5 y)
)",
                   R"(graph f(%0 h : f64[2,3], %1 x : f64[5,2,3], %2 w : f64[3,3], %3 u : f64[3,3])
  %4 : f64[3,3]{1,3} = aten.t(%2)  # by hoist_from_scans
  %5 : f64[10,3] = aten.view(%1, [10, 3])  # by hoist_from_scans
  %6 : f64[10,3] = aten.mm(%5, %4)  # by hoist_from_scans
  %7 : f64[5,2,3] = aten.view(%6, [5, 2, 3])  # by hoist_from_scans
  %8 : f64[2,3], %9 : f64[5,2,3] = hop.scan(init=[%0], xs=[%1, %7], free=[%2, %3], length=5, reverse=false) {
    graph body(%0 h : f64[2,3], %1 x : f64[2,3], %2 hoisted.0 : f64[2,3], %3 w : f64[3,3], %4 u : f64[3,3])
      %5 : f64[2,3] = aten.mm(%0, %4)
      %6 : f64[2,3] = aten.add.Tensor(%2, %5)
      %7 : f64[2,3] = aten.tanh(%6)
      return (%7 h, %7 y)
  }
  return (%8 h, %9 y)
)");
}

TEST(SinkFromScans, MakesOneProductOfASumOfProducts) {
  expect_scan_pass(sink_from_scans, R"(graph f(%0 g : f64[2,3], %1 x : f64[5,2,4], %2 d : f64[5,2,3], %3 u : f64[3,3])
  %4 : f64[4,3] = aten.zeros([4, 3], dtype=f64)
  %5 : f64[3] = aten.zeros([3], dtype=f64)
  %6 : f64[2,3], %7 : f64[4,3], %8 : f64[3], %9 : f64[5,2,3] = hop.scan(init=[%0, %4, %5], xs=[%1, %2], free=[%3], length=5, reverse=true) {
    graph body(%0 g : f64[2,3], %1 dw : f64[4,3], %2 db : f64[3], %3 x : f64[2,4], %4 d : f64[2,3], %5 u : f64[3,3])
      %6 : f64[2,3] = aten.add.Tensor(%0, %4)
      %7 : f64[2,3] = aten.mm(%6, %5)
      %8 : f64[4,2]{1,4} = aten.t(%3)
      %9 : f64[4,3] = aten.mm(%8, %6)
      %10 : f64[4,3] = aten.add.Tensor(%1, %9)
      %11 : f64[3] = aten.sum.dim_IntList(%6, [0])
      %12 : f64[3] = aten.add.Tensor(%2, %11)
      %13 : f64[2,3] = aten.mul.Tensor(%6, %6)
      return (%7 g, %10 dw, %12 db, %13 y)
  }
  return (%6 g, %7 dw, %8 db, %9 y)
)",
                   R"(graph f(%0 g : f64[2,3], %1 x : f64[5,2,4], %2 d : f64[5,2,3], %3 u : f64[3,3])
  %4 : f64[4,3] = aten.zeros([4, 3], dtype=f64)
  %5 : f64[3] = aten.zeros([3], dtype=f64)
  %6 : f64[2,3], %7 : f64[5,2,3] = hop.scan(init=[%0], xs=[%1, %2], free=[%3], length=5, reverse=true) {
    graph body(%0 g : f64[2,3], %1 x : f64[2,4], %2 d : f64[2,3], %3 u : f64[3,3])
      %4 : f64[2,3] = aten.add.Tensor(%0, %2)
      %5 : f64[2,3] = aten.mm(%4, %3)
      return (%5 g, %4 sunk.0)
  }
  %8 : f64[5,4,2]{8,1,4} = aten.transpose.int(%1, 1, 2)  # by sink_from_scans
  %9 : f64[5,2,3] = aten.mul.Tensor(%7, %7)  # by sink_from_scans
  %10 : f64[4,5,2]{1,8,4} = aten.permute(%8, [1, 0, 2])  # by sink_from_scans
  %11 : f64[4,10]{1,4} = aten.view(%10, [4, 10])  # by sink_from_scans
  %12 : f64[10,3] = aten.view(%7, [10, 3])  # by sink_from_scans
  %13 : f64[4,3] = aten.mm(%11, %12)  # by sink_from_scans
  %14 : f64[3] = aten.sum.dim_IntList(%7, [0, 1], dtype=f64)  # by sink_from_scans
  return (%6 g, %13 dw, %14 db, %9 y)
)");
}

// Each layer's gradient is a product of its own; all of them at once would want what they read of all layers.
TEST(SinkFromScans, LeavesProductsOfWhatVariesInTheLoop) {
  const char* layers = R"(graph f(%0 g : f64[64,64], %1 x : f64[5,64,64], %2 w : f64[5,64,64], %3 v : f64[5,64,64])
  %4 : f64[64,64], %5 : f64[5,64,64], %6 : f64[5,64] = hop.scan(init=[%0], xs=[%1, %2, %3], free=[], length=5, reverse=true) {
    graph body(%0 g : f64[64,64], %1 x : f64[64,64], %2 w : f64[64,64], %3 v : f64[64,64])
      %4 : f64[64,64] = aten.mm(%0, %2)
      %5 : f64[64,64] = aten.mm(%4, %3)
      %6 : f64[64,64]{1,64} = aten.t(%1)
      %7 : f64[64,64] = aten.mm(%6, %4)
      %8 : f64[64] = aten.sum.dim_IntList(%5, [0])
      return (%5 g, %7 dw, %8 db)
  }
  return (%4 g, %5 dw, %6 db)
)";
  expect_scan_pass(sink_from_scans, layers, layers);
}

TEST(HoistFromScans, LeavesElementwiseWorkOnLargeSlicesInTheLoop) {
  const char* large = R"(graph f(%0 h : f64[4096], %1 x : f64[3,64,64])
  %2 : f64[4096] = hop.scan(init=[%0], xs=[%1], free=[], length=3, reverse=false) {
    graph body(%0 h : f64[4096], %1 x : f64[64,64])
      %2 : f64[64,64] = aten.sin(%1)
      %3 : f64[4096] = aten.view(%2, [4096])
      %4 : f64[4096] = aten.mul.Tensor(%0, %3)
      return (%4 h)
  }
  return (%2 h)
)";
  expect_scan_pass(hoist_from_scans, large, large);
}

TEST(ReuseScanStacks, StacksACarryOnceAsItGoesInAndComesOut) {
  expect_scan_pass(reuse_scan_stacks, R"(graph f(%0 h : f64[2,3], %1 x : f64[5,2,3])
  %2 : f64[2,3], %3 : f64[5,2,3], %4 : f64[5,3,2]{6,1,3}, %5 : f64[5,2,3], %6 : f64[5,2,3] = hop.scan(init=[%0], xs=[%1], free=[], length=5, reverse=false) {
    graph body(%0 h : f64[2,3], %1 x : f64[2,3])
      %2 : f64[2,3] = aten.mul.Tensor(%0, %1)
      %3 : f64[3,2]{1,3} = aten.t(%0)
      return (%2 h, %2 y, %3 residual.0 residual, %2 residual.1 residual, %1 residual.2 residual)
  }
  return (%2 h, %3 y, %4 residual.0 residual, %5 residual.1 residual, %6 residual.2 residual)
)",
                   R"(graph f(%0 h : f64[2,3], %1 x : f64[5,2,3])
  %2 : f64[2,3], %3 : f64[6,2,3] = hop.scan(init=[%0], xs=[%1], free=[], length=5, reverse=false, fronts=[0]) {
    graph body(%0 h : f64[2,3], %1 x : f64[2,3])
      %2 : f64[2,3] = aten.mul.Tensor(%0, %1)
      return (%2 h, %2 y)
  }
  %4 : f64[5,2,3] = aten.slice.Tensor(%3, start=1, end=6)  # by reuse_scan_stacks
  %5 : f64[5,2,3] = aten.slice.Tensor(%3, start=1, end=6)  # by reuse_scan_stacks
  %6 : f64[5,2,3] = aten.slice.Tensor(%3, start=0, end=5)  # by reuse_scan_stacks
  %7 : f64[5,3,2]{6,1,3} = aten.transpose.int(%6, 1, 2)  # by reuse_scan_stacks
  return (%2 h, %4 y, %7 residual.0 residual, %5 residual.1 residual, %1 residual.2 residual)
)");
}

TEST(ReuseScanStacks, PutsTheFirstCarryBehindTheRowsOfAReverseScan) {
  expect_scan_pass(reuse_scan_stacks, R"(graph f(%0 h : f64[2], %1 x : f64[5,2])
  %2 : f64[2], %3 : f64[5,2], %4 : f64[5,2] = hop.scan(init=[%0], xs=[%1], free=[], length=5, reverse=true) {
    graph body(%0 h : f64[2], %1 x : f64[2])
      %2 : f64[2] = aten.mul.Tensor(%0, %1)
      return (%2 h, %0 before, %2 after)
  }
  return (%2 h, %3 before residual, %4 after residual)
)",
                   R"(graph f(%0 h : f64[2], %1 x : f64[5,2])
  %2 : f64[2], %3 : f64[6,2] = hop.scan(init=[%0], xs=[%1], free=[], length=5, reverse=true, fronts=[0]) {
    graph body(%0 h : f64[2], %1 x : f64[2])
      %2 : f64[2] = aten.mul.Tensor(%0, %1)
      return (%2 h, %2 after)
  }
  %4 : f64[5,2] = aten.slice.Tensor(%3, start=1, end=6)  # by reuse_scan_stacks
  %5 : f64[5,2] = aten.slice.Tensor(%3, start=0, end=5)  # by reuse_scan_stacks
  return (%2 h, %4 before residual, %5 after residual)
)");
}

TEST(ReuseScanStacks, GivesEachOutputMemoryOfItsOwn) {
  expect_scan_pass(reuse_scan_stacks, R"(graph f(%0 h : f64[2], %1 x : f64[5,2])
  %2 : f64[2], %3 : f64[5,2], %4 : f64[5,2] = hop.scan(init=[%0], xs=[%1], free=[], length=5, reverse=false) {
    graph body(%0 h : f64[2], %1 x : f64[2])
      %2 : f64[2] = aten.mul.Tensor(%0, %1)
      return (%2 h, %2 a, %2 b)
  }
  return (%2 h, %3 a, %4 b)
)",
                   R"(graph f(%0 h : f64[2], %1 x : f64[5,2])
  %2 : f64[2], %3 : f64[5,2] = hop.scan(init=[%0], xs=[%1], free=[], length=5, reverse=false) {
    graph body(%0 h : f64[2], %1 x : f64[2])
      %2 : f64[2] = aten.mul.Tensor(%0, %1)
      return (%2 h, %2 a)
  }
  %4 : f64[5,2] = aten.clone(%3)  # by reuse_scan_stacks
  return (%2 h, %3 a, %4 b)
)");
}

TEST(DropConstantCarries, GivesThemToAllStepsAlike) {
  expect_scan_pass(drop_constant_carries, R"(graph f(%0 h : f64[2], %1 k : f64[2], %2 x : f64[5,2])
  %3 : f64[2], %4 : f64[2] = hop.scan(init=[%0, %1], xs=[%2], free=[], length=5, reverse=false) {
    graph body(%0 h : f64[2], %1 k : f64[2], %2 x : f64[2])
      %3 : f64[2] = aten.addcmul(%2, %0, %1)
      return (%3 h, %1 k)
  }
  return (%3 h, %4 k)
)",
                   R"(graph f(%0 h : f64[2], %1 k : f64[2], %2 x : f64[5,2])
  %3 : f64[2] = hop.scan(init=[%0], xs=[%2], free=[%1], length=5, reverse=false) {
    graph body(%0 h : f64[2], %1 x : f64[2], %2 k : f64[2])
      %3 : f64[2] = aten.addcmul(%1, %0, %2)
      return (%3 h)
  }
  %4 : f64[2] = aten.clone(%1)  # by drop_constant_carries
  return (%3 h, %4 k)
)");
}

TEST(DropConstantCarries, GivesThemInTheLayoutOfTheBody) {
  expect_scan_pass(drop_constant_carries, R"(graph f(%0 k : f64[2,3]{1,2}, %1 x : f64[5,6])
  %2 : f64[2,3], %3 : f64[5,6] = hop.scan(init=[%0], xs=[%1], free=[], length=5, reverse=false) {
    graph body(%0 k : f64[2,3], %1 x : f64[6])
      %2 : f64[6] = aten.view(%0, [6])
      %3 : f64[6] = aten.mul.Tensor(%1, %2)
      return (%0 k, %3 y)
  }
  return (%3 y)
)",
                   R"(graph f(%0 k : f64[2,3]{1,2}, %1 x : f64[5,6])
  %2 : f64[2,3] = aten.clone(%0, memory_format=contiguous_format)  # by drop_constant_carries
  %3 : f64[5,6] = hop.scan(init=[], xs=[%1], free=[%2], length=5, reverse=false) {
    graph body(%0 x : f64[6], %1 k : f64[2,3])
      %2 : f64[6] = aten.view(%1, [6])
      %3 : f64[6] = aten.mul.Tensor(%0, %2)
      return (%3 y)
  }
  %4 : f64[2,3] = aten.clone(%0, memory_format=contiguous_format)  # by drop_constant_carries
  return (%3 y)
)");
}

TEST(DropDeadScanParts, FollowsCarriesThatNobodyNeeds) {
  expect_scan_pass(drop_dead_scan_parts,
                   R"(graph f(%0 h : f64[2], %1 a : f64[2], %2 b : f64[2], %3 x : f64[5,2], %4 z : f64[5,2])
  %5 : f64[2], %6 : f64[2], %7 : f64[2], %8 : f64[5,2] = hop.scan(init=[%0, %1, %2], xs=[%3, %4, %3], free=[%1], length=5, reverse=false) {
    graph body(%0 h : f64[2], %1 a : f64[2], %2 b : f64[2], %3 x : f64[2], %4 z : f64[2], %5 again : f64[2], %6 c : f64[2])
      %7 : f64[2] = aten.mul.Tensor(%0, %3)
      %8 : f64[2] = aten.add.Tensor(%7, %5)
      %9 : f64[2] = aten.add.Tensor(%1, %2)
      %10 : f64[2] = aten.mul.Tensor(%9, %4)
      %11 : f64[2] = aten.mul.Tensor(%2, %6)
      return (%8 h, %10 a, %11 b, %9 y)
  }
  return (%5 h)
)",
                   R"(graph f(%0 h : f64[2], %1 a : f64[2], %2 b : f64[2], %3 x : f64[5,2], %4 z : f64[5,2])
  %5 : f64[2] = hop.scan(init=[%0], xs=[%3], free=[], length=5, reverse=false) {
    graph body(%0 h : f64[2], %1 x : f64[2])
      %2 : f64[2] = aten.mul.Tensor(%0, %1)
      %3 : f64[2] = aten.add.Tensor(%2, %1)
      return (%3 h)
  }
  return (%5 h)
)");
}

}  // namespace
}  // namespace diptych::testing
