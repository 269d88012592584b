// Random bodies of loops, for tests that change loops and must not change results.
#pragma once
#include <random>

#include "hops/unrolled.h"

namespace diptych::testing {

/// A step over carries h [2,3], k [2,3], a running sum of [3,3] and one of [3], slices x [T,2,3], v [T,3], s [T], and
/// captured tensors w [3,3], b [3], c [2,3], all float64. The same seed always does the same, so that it can be run as
/// a loop and as a scan.
class RandomBody {
 public:
  RandomBody(uint64_t seed, Tensors free) : seed_(seed), free_(std::move(free)) {}

  /// Operands of the whole loop: the carries, the slices, the captured tensors.
  static Tensors inputs(int64_t length, double shift = 0) {
    const std::vector<std::vector<int64_t>> sizes{{2, 3},      {2, 3},   {3, 3}, {3}, {length, 2, 3},
                                                  {length, 3}, {length}, {3, 3}, {3}, {2, 3}};
    Tensors made;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto values64 = values(sizes[i], shift + 0.7 * static_cast<double>(i)).to(torch::kFloat64) * 0.7;
      made.push_back(values64.detach().requires_grad_());
    }
    return made;
  }
  static constexpr size_t kNumCarries = 4;
  static constexpr size_t kNumSlices = 3;

  std::pair<Tensors, Tensors> operator()(const Tensors& carry, const Tensors& slices) const {
    std::mt19937_64 random(seed_);
    Tensors full{carry[0], carry[1], slices[0], free_[2]};
    Tensors rows{slices[1], free_[1]};
    const auto pick = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
    const auto any = [&](const Tensors& pool) { return pool[pick(pool.size())]; };
    const size_t steps = 4 + pick(8);
    for (size_t i = 0; i < steps; ++i) add(full, rows, slices, any, pick);
    const at::Tensor h = torch::tanh(any(full) + full.back() * 0.5);
    const at::Tensor k = pick(4) == 0 ? carry[1] : pick(2) == 0 ? slices[0] : torch::sin(any(full));
    const at::Tensor product = carry[2] + any(full).t().mm(any(full));
    const at::Tensor sum = carry[3] + (pick(2) == 0 ? any(rows) : any(full).sum(0));
    Tensors stacked{any(full), any(full), h, any(rows), any(full).t(), any(full).mean(1)};
    if (pick(2) == 0) stacked.push_back(carry[0]);
    return {{h, k, product, sum}, stacked};
  }

 private:
  template <class Any, class Pick>
  void add(Tensors& full, Tensors& rows, const Tensors& slices, Any any, Pick pick) const {
    const at::Tensor a = any(full);
    switch (pick(16)) {
      case 0:
      case 1:
        return full.push_back(a.mm(free_[0]));
      case 2:
        return full.push_back(torch::addmm(any(rows), a, free_[0].t()));
      case 3:
        return full.push_back(a * any(full));
      case 4:
        return full.push_back(a + any(rows));
      case 5:
        return full.push_back(torch::tanh(a));
      case 6:
        return full.push_back(torch::softmax(a, 1));
      case 7:
        return full.push_back(a * slices[2]);
      case 8:
        return rows.push_back(a.sum(0));
      case 9:
        return rows.push_back(any(rows) * slices[2] + free_[1]);
      case 10:
        return rows.push_back(a.select(0, 1));
      case 11:
        return full.push_back(a.t().contiguous().view({3, 2}).t() - a);
      case 12:
        return full.push_back(torch::layer_norm(a, {3}, free_[1]));
      case 13:
        return full.push_back(torch::cat({a.slice(1, 1), a.slice(1, 0, 1)}, 1));
      case 14:
        return full.push_back(torch::where(a > 0, a, any(full)));
      default:
        return full.push_back(any(rows).unsqueeze(0).expand({2, 3}) * a);
    }
  }

  uint64_t seed_;
  Tensors free_;
};

}  // namespace diptych::testing
