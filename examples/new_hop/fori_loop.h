// A higher-order operator from outside the library: fori_loop, a loop over a range of integers, as jax.lax.fori_loop.
// What it takes: an operator that says what its results look like and runs them, and where there is a gradient to be
// taken, what other operator it amounts to. Capture, the interpreter, gradients to any order, random numbers and free
// variables follow. docs/new_hop.md goes through it.
#pragma once
#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>
#include <diptych/hops/call.h>
#include <diptych/hops/flat_function.h>
#include <diptych/hops/loop_body.h>
#include <diptych/hops/scan/scan_operator.h>
#include <diptych/hops/strides.h>

namespace example {

namespace dp = diptych;
using Tensors = std::vector<at::Tensor>;

/// hop.fori_loop. `init`: the first carries; `free`: what the body captured. The body takes carries, the index i64[]
/// and what it captured, and returns the next carries. Results: the last carries.
class ForiLoop final : public dp::HigherOrderOperator {
 public:
  ForiLoop() : HigherOrderOperator("fori_loop(Tensor[] init, Tensor[] free, int begin, int count)", {"step"}) {}
  static const ForiLoop& get() {
    static const auto* const op = new ForiLoop;  // never destroyed: graphs refer to it
    return *op;
  }

  // 1. What results look like: a carry keeps its sizes and dtype.
  std::vector<dp::TensorMeta> infer(const dp::Hop& hop) const override {
    std::vector<dp::TensorMeta> metas;
    for (size_t i = 0; i < hop.group("init"); ++i) metas.push_back(hop.body(0).input(i));
    return metas;
  }

  // 2. How it is run on real tensors, below autograd. The function must not hold the hop, which holds it.
  dp::HopFunction compile(const dp::Hop& hop) const override {
    return [body = hop.bodies()[0], metas = hop.results(), num_carries = hop.group("init"),
            begin = hop.attributes().integer("begin"), count = hop.attributes().integer("count")](Tensors&& operands) {
      const auto free_begin = operands.begin() + static_cast<int64_t>(num_carries);
      Tensors carries(operands.begin(), free_begin);
      for (int64_t i = 0; i < count; ++i) {
        for (size_t k = 0; k < num_carries; ++k) carries[k] = dp::with_strides(carries[k], body->input(k));
        carries.push_back(at::scalar_tensor(begin + i, at::kLong));
        carries.insert(carries.end(), free_begin, operands.end());
        carries = body->program().run(std::move(carries));
      }
      dp::own_results(metas, operands, carries);
      return carries;
    };
  }

  // 3. Where gradients are recorded, it is a scan over the indices.
  Tensors call_with_grad(const dp::HopPtr& hop, Tensors&& operands) const override {
    const size_t num_carries = hop->group("init");
    const int64_t begin = hop->attributes().integer("begin"), count = hop->attributes().integer("count");
    const auto scan = dp::make_scan(hop->bodies()[0], num_carries, /*num_slices=*/1, count, /*reverse=*/false);
    operands.insert(operands.begin() + static_cast<int64_t>(num_carries), at::arange(begin, begin + count, at::kLong));
    return dp::call(scan, std::move(operands));
  }
};

/// Runs `carry = f(i, carry)` for i from `begin` to `end`, which is not reached, and returns the last carry. f runs
/// once, on stand-ins. Errors: as dp::scan().
template <class F, class Carry>
Carry fori_loop(int64_t begin, int64_t end, F&& f, const Carry& init) {
  const dp::Flattened carry = dp::flatten(init, "carry");
  const at::Tensor index = at::scalar_tensor(begin, at::kLong);
  const auto step = [&](const Carry& now, const at::Tensor& i) { return f(i, now); };
  std::shared_ptr<Carry> example;
  const dp::LoopInputs inputs{{dp::TensorMeta::of(index)}, {"i"}};
  const dp::LoopBody loop =
      dp::capture_loop_body("fori_loop", dp::make_flat<Carry>(step, example, init, index), carry, inputs);
  Tensors operands = carry.tensors;
  for (const at::Tensor& buffer : loop.buffer_operands()) operands.push_back(buffer);
  const size_t num_carries = operands.size();
  const Tensors& free = loop.body->free_variables();
  operands.insert(operands.end(), free.begin(), free.end());
  const auto hop = dp::make_hop(ForiLoop::get(), {loop.body}, {num_carries, free.size()},
                                {{"begin", begin}, {"count", std::max<int64_t>(end - begin, 0)}});
  return dp::unflatten(Carry(init), loop.write_buffers(dp::call(hop, std::move(operands)), carry.tensors.size()));
}

}  // namespace example
