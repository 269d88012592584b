#include "diptych/distributed/buckets.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "diptych/base/error.h"
#include "testing/expect_error.h"

namespace diptych::distributed {

using namespace detail;
namespace {

std::vector<std::vector<size_t>> members(const std::vector<at::Tensor>& parameters, const BucketOptions& options) {
  std::vector<std::vector<size_t>> result;
  for (const Bucket& bucket : assign_buckets(parameters, options)) result.push_back(bucket.members);
  return result;
}

using Members = std::vector<std::vector<size_t>>;

TEST(Buckets, TakeParametersFromTheLastToTheFirst) {
  const std::vector<at::Tensor> parameters(5, torch::zeros({4}));  // 16 bytes each
  EXPECT_EQ(members(parameters, {.bucket_bytes = 32, .first_bucket_bytes = 16}), (Members{{4}, {3, 2}, {1, 0}}));
}

TEST(Buckets, AreClosedByTheParameterThatFillsThem) {
  const std::vector<at::Tensor> parameters{torch::zeros({1}), torch::zeros({100}), torch::zeros({1})};
  EXPECT_EQ(members(parameters, {.bucket_bytes = 8, .first_bucket_bytes = 8}), (Members{{2, 1}, {0}}));
}

TEST(Buckets, HoldOneDtypeEachAndComeInTheOrderInWhichTheyAreFull) {
  const auto f32 = torch::zeros({4}), f64 = torch::zeros({4}, torch::kFloat64);
  EXPECT_EQ(members({f32, f64, f32, f64, f32}, {.bucket_bytes = 64, .first_bucket_bytes = 64}),
            (Members{{3, 1}, {4, 2, 0}}));
}

TEST(Buckets, OfNoParametersAreNone) { EXPECT_TRUE(assign_buckets({}).empty()); }

TEST(Buckets, DefaultsAreThoseOfPyTorch) {
  const BucketOptions options;
  EXPECT_EQ(options.bucket_bytes, 25 * 1024 * 1024);
  EXPECT_EQ(options.first_bucket_bytes, 1024 * 1024);
}

TEST(Buckets, RefuseSizesThatAreNotPositive) {
  EXPECT_EQ(testing::message_of([] { assign_buckets({}, {.bucket_bytes = 0}); }),
            "[distributed] bucket_bytes is 0 and first_bucket_bytes 1048576; give sizes above 0");
}

TEST(Buckets, AreDescribedByParameterDtypeAndSizes) {
  const std::vector<at::Tensor> parameters{torch::zeros({2, 3}), torch::zeros({}, torch::kFloat64)};
  EXPECT_EQ(describe(assign_buckets(parameters), parameters), "1:Double[]; 0:Float[2,3]");
}

}  // namespace
}  // namespace diptych::distributed
