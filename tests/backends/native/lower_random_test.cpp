// Random groups: chains of views, broadcasts, reductions and pointwise nodes, as far as they fit into one space.
#include <random>

#include "backends/native/lowering_check.h"
#include "diptych/native/lower/group_space.h"
#include "testing/rotation.h"

namespace diptych {
namespace {

using namespace detail;
using testing::GraphWriter;
using testing::ints;

// Writes one node after the other, and takes back none: what does not fit into the space of those before is left out by
// trying each node on a copy of the writer.
class RandomGroup {
 public:
  explicit RandomGroup(uint32_t seed) : random_(seed) {
    const std::vector<std::vector<int64_t>> shapes = {{4, 6}, {2, 3, 4}, {12, 2}, {4, 4}, {1, 8}, {6}};
    const auto sizes = shapes[below(static_cast<int>(shapes.size()))];
    for (int i = 0; i < 2; ++i) values_.push_back(writer_.input(input_of(sizes)));
    values_.push_back(writer_.input(input_of({sizes.back()})));
  }

  void grow(int nodes) {
    for (int i = 0; i < nodes; ++i) {
      GraphWriter trial = writer_;
      const Value value = write_node(trial);
      const size_t node = trial.graph().nodes().size() - 1;
      if (!fits(trial, node)) {
        ++refused;
        continue;
      }
      writer_ = trial;
      values_.push_back(value);
      is_made_.push_back(value);
    }
  }

  // The last values, as far as a kernel may write them.
  ::testing::AssertionResult check() {
    std::vector<Value> outputs;
    for (size_t i = is_made_.size(); i-- > 0 && outputs.size() < 4;) {
      if (writer_.tensor(is_made_[i]).is_non_overlapping_and_dense()) outputs.push_back(is_made_[i]);
    }
    if (outputs.empty()) return ::testing::AssertionSuccess();
    return testing::like_eager(writer_, outputs, {.rtol = 1e-5, .atol = 1e-6, .strides = true});
  }
  size_t size() const { return is_made_.size(); }
  int refused = 0;

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }

  at::Tensor input_of(const std::vector<int64_t>& sizes) {
    const at::Tensor dense = testing::values(sizes, below(100) * 0.1);
    if (sizes.size() < 2 || below(3) != 0) return dense;
    return below(2) == 0 ? dense.transpose(0, 1).contiguous().transpose(0, 1)
                         : at::cat({dense, dense}, 1).slice(1, 0, 2 * sizes[1], 2);
  }

  static bool fits(const GraphWriter& writer, size_t last) {
    GroupSpace space(writer.graph());
    for (size_t node = 0; node <= last; ++node) {
      if (!space.add(node)) return false;
    }
    return true;
  }

  Value any_value() { return values_[below(static_cast<int>(values_.size()))]; }

  Value write_node(GraphWriter& w) {
    const int kind = below(10);
    const Value x = any_value();
    if (kind < 2) return w.call(std::vector<std::string>{"aten.sin", "aten.neg", "aten.tanh"}[below(3)], {x});
    if (kind < 5) return write_pair(w, x);
    if (kind < 8) return below(6) == 0 ? write_joined(w, x) : write_view(w, x);
    return write_reduction(w, x);
  }

  // Of operands that broadcast, or of one with itself.
  Value write_pair(GraphWriter& w, Value x) {
    Value y = any_value();
    for (int i = 0; i < 10 && !broadcast(w.tensor(x), w.tensor(y)); ++i) y = any_value();
    if (!broadcast(w.tensor(x), w.tensor(y))) y = x;
    return w.call(below(2) == 0 ? "aten.add.Tensor" : "aten.mul.Tensor", {x, y});
  }
  static bool broadcast(const at::Tensor& x, const at::Tensor& y) {
    for (int64_t i = 1; i <= std::min(x.dim(), y.dim()); ++i) {
      if (x.size(-i) != y.size(-i) && x.size(-i) != 1 && y.size(-i) != 1) return false;
    }
    return true;
  }

  Value write_view(GraphWriter& w, Value x) {
    const at::Tensor tensor = w.tensor(x);
    const int64_t rank = tensor.dim();
    switch (below(5)) {
      case 0:
        return w.call("aten.unsqueeze", {x, c10::IValue(int64_t{below(static_cast<int>(rank) + 1)})});
      case 1: {
        std::vector<int64_t> order(rank);
        for (int64_t i = 0; i < rank; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random_);
        return w.call("aten.permute", {x, ints(order)});
      }
      case 2: {
        std::vector<int64_t> times(rank, 1);
        if (rank > 0 && tensor.numel() < 100) times[below(static_cast<int>(rank))] = 2;
        return w.call("aten.repeat", {x, ints(times)});
      }
      case 3:
        return w.call("aten.reshape", {x, ints(other_sizes(tensor.numel()))});
      default: {
        auto sizes = tensor.sizes().vec();
        for (int64_t& size : sizes) size = size == 1 ? 3 : size;
        return w.call("aten.expand", {x, ints(sizes)});
      }
    }
  }
  // A value beside another of its sizes.
  Value write_joined(GraphWriter& w, Value x) {
    Value y = any_value();
    if (w.tensor(x).sizes() != w.tensor(y).sizes()) y = x;
    if (w.tensor(x).numel() > 100 || w.tensor(x).dim() == 0) return w.call("aten.neg", {x});
    const char* const op = below(2) == 0 ? "aten.cat" : "aten.stack";
    return w.call(op, {ValueList{x, y}, c10::IValue(int64_t{below(static_cast<int>(w.tensor(x).dim()))})});
  }
  std::vector<int64_t> other_sizes(int64_t count) {
    std::vector<int64_t> sizes;
    for (const int64_t factor : {4, 3, 2, 6}) {
      if (count % factor != 0 || below(2) == 0) continue;
      sizes.push_back(factor);
      count /= factor;
    }
    sizes.insert(sizes.begin() + below(static_cast<int>(sizes.size()) + 1), count);
    return sizes;
  }

  Value write_reduction(GraphWriter& w, Value x) {
    const int64_t rank = w.tensor(x).dim();
    if (rank == 0) return w.call("aten.sum", {x});
    const int64_t dim = below(static_cast<int>(rank));
    if (below(4) == 0) return w.call_all("aten.max.dim", {x, c10::IValue(dim), c10::IValue(true)})[0];
    const char* const op = below(2) == 0 ? "aten.sum.dim_IntList" : "aten.amax";
    return w.call(op, {x, ints({dim}), c10::IValue(below(3) != 0)});
  }

  std::mt19937 random_;
  GraphWriter writer_;
  std::vector<Value> values_;
  std::vector<Value> is_made_;
};

TEST(LowerRandom, GroupsComputeWhatEagerComputes) {
  size_t nodes = 0, refused = 0;
  const auto seeds = testing::rotating_seeds(0, 300);
  for (const uint32_t seed : seeds) {
    SCOPED_TRACE(seed);
    RandomGroup group(seed);
    group.grow(12);
    ASSERT_TRUE(group.check());
    nodes += group.size();
    refused += group.refused;
  }
  // Most nodes fit, and some do not.
  EXPECT_GT(nodes, refused);
  EXPECT_GT(refused, testing::share_of(seeds.size(), 30, 300));
}

}  // namespace
}  // namespace diptych
