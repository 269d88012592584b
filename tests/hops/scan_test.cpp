#include "diptych/graph/identical.h"
#include "hops/unrolled.h"

namespace diptych::testing {

using namespace detail;
namespace {

// inputs: h [2,3], x [T,2,3], w [3,3], u [3,3]
struct Rnn {
  at::Tensor w, u;
  std::pair<Tensors, Tensors> operator()(const Tensors& carry, const Tensors& x) const {
    const at::Tensor h = torch::tanh(torch::mm(x[0], w) + torch::mm(carry[0], u));
    return {{h}, {h * 2}};
  }
};

Tensors scanned_rnn(const Tensors& t, const ScanOptions& options = {}) {
  return joined(scan(Rnn{t[2], t[3]}, Tensors{t[0]}, Tensors{t[1]}, options));
}
Tensors written_out_rnn(const Tensors& t, const ScanOptions& options = {}) {
  return joined(unrolled_scan(Rnn{t[2], t[3]}, Tensors{t[0]}, Tensors{t[1]}, options));
}
Tensors rnn_inputs(int64_t length) {
  return {leaf64({2, 3}), leaf64({length, 2, 3}, 0.3), leaf64({3, 3}, 0.7), leaf64({3, 3}, 1.1)};
}

TEST(Scan, RunsAsTheLoop) {
  const Tensors inputs = rnn_inputs(5);
  for (const bool reverse : {false, true}) {
    const Tensors ours = scanned_rnn(inputs, {.reverse = reverse});
    const Tensors loop = written_out_rnn(inputs, {.reverse = reverse});
    ASSERT_EQ(ours.size(), loop.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(torch::equal(ours[i], loop[i]));
      EXPECT_TRUE(ours[i].requires_grad());
    }
    const auto gradients = [&](const Tensors& outputs) {
      return torch::autograd::grad({outputs[0].sum() + (outputs[1] * outputs[1]).sum()},
                                   torch::autograd::variable_list(inputs.begin(), inputs.end()));
    };
    const auto a = gradients(ours), b = gradients(loop);
    EXPECT_TRUE(same_tensors(a, b, within(1e-12)));
  }
}

TEST(Scan, GradientsAreRightToTheSecondOrder) {
  expect_gradients_right(rnn_inputs(3), [](const Tensors& t) { return scanned_rnn(t); });
}

TEST(Scan, CapturedAsInEager) {
  expect_as_eager([] { return rnn_inputs(4); }, [](const Tensors& t) { return scanned_rnn(t); }, {.tolerance = 1e-12});
}

TEST(Scan, ReadBackFromTextAndFilesItRunsTheSame) {
  const Tensors t = rnn_inputs(3);
  const Pair pair = capture(
      [](const at::Tensor& h, const at::Tensor& x, const at::Tensor& w, const at::Tensor& u) {
        return scanned_rnn({h, x, w, u})[1];
      },
      t[0], t[1], t[2], t[3]);
  const auto expected = pair.forward_call(t);
  const Graph parsed = parse(pair.forward.code(), all_constants(pair.forward), find_hop);
  const Graph read = from_json(to_json(pair.forward), all_constants(pair.forward), find_hop);
  for (const Graph& graph : {parsed, read}) {
    EXPECT_EQ(graph.code(), pair.forward.code());
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(torch::equal(Program(graph).run(Tensors(t))[0], expected.outputs[0]));
  }
}

// Draws fill a tensor in the order of its memory, so that the layout of a carry counts.
struct Stepping {
  std::function<at::Tensor(const at::Tensor&)> next;
  std::pair<Tensors, Tensors> operator()(const Tensors& carry, const Tensors& x) const {
    return {{next(carry[0]) + x[0].sum()}, {x[0]}};
  }
};

void expect_draws_of_the_loop(const Stepping& body, const at::Tensor& init) {
  const at::Tensor xs = values({3, 2});
  torch::manual_seed(7);
  const Tensors ours = joined(scan(body, Tensors{init}, Tensors{xs}));
  torch::manual_seed(7);
  EXPECT_TRUE(torch::equal(ours[0], joined(unrolled_scan(body, Tensors{init}, Tensors{xs}))[0]));
}

TEST(Scan, DrawsForCarriesInTheOrderOfTheirMemory) {
  const at::Tensor plain = values({3, 3}), transposed = plain.t();
  const auto dropped = [](const at::Tensor& t) { return torch::dropout(t, 0.5, true); };
  const Stepping drops{dropped};
  const Stepping turns{[=](const at::Tensor& t) { return dropped(t).t(); }};
  const Stepping draws_apart{[](const at::Tensor& t) { return t * torch::rand({3, 3}); }};
  const Stepping drops_product{[=](const at::Tensor& t) { return dropped(t.mm(values({3, 3}))).t().clone(); }};
  const Stepping drops_inside{[](const at::Tensor& t) {
    return t + cond(
                   t.sum() > -100, [](const at::Tensor& c) { return (torch::rand_like(c) * c).sum(); },
                   [](const at::Tensor& c) { return c.sum(); }, t);
  }};
  expect_draws_of_the_loop(drops, plain);
  expect_draws_of_the_loop(drops_inside, plain);
  for (const at::Tensor& init : {plain, transposed}) {
    expect_draws_of_the_loop(draws_apart, init);
    expect_draws_of_the_loop(drops_product, init);
  }
  for (const auto& [body, init] :
       {std::pair{drops, transposed}, {turns, plain}, {turns, transposed}, {drops_inside, transposed}}) {
    expect_error<UserError>([&] { expect_draws_of_the_loop(body, init); },
                            "[scan] the body draws random numbers into the layout of a carry that");
  }
  expect_draws_of_the_loop(drops, transposed.contiguous());
}

// Which memory a write reaches may depend on the layout of a carry; the loop written out has carries as they come.
TEST(Scan, WritesWhatTheLoopWritesOrSaysWhyNot) {
  const at::Tensor xs = values({3, 2}), plain = values({3, 3}), transposed = values({3, 3}).t();
  const auto flattened = [](const at::Tensor& h) {
    const at::Tensor y = h.clone();
    y.flatten().mul_(2);
    return y;
  };
  const Stepping flattens{flattened};
  const Stepping turns{[=](const at::Tensor& h) { return flattened(h).t(); }};
  const Stepping writes_beneath{[](const at::Tensor& h) {
    const at::Tensor y = h.clone(), flat = y.flatten();
    y.mul_(2);
    return y.t() + flat.sum();
  }};
  const Stepping writes_apart{[](const at::Tensor& h) {
    const at::Tensor y = h.clone();
    y[0].mul_(2);
    y.t().select(0, 1).add_(y.reshape({-1})[0]);
    return y.t();
  }};
  for (const auto& [body, init] : {std::pair{flattens, plain}, {writes_apart, plain}, {writes_apart, transposed}}) {
    const Tensors ours = joined(scan(body, Tensors{init}, Tensors{xs}));
    EXPECT_TRUE(torch::equal(ours[0], joined(unrolled_scan(body, Tensors{init}, Tensors{xs}))[0]));
  }
  for (const auto& [body, init] :
       {std::pair{flattens, transposed}, {turns, plain}, {turns, transposed}, {writes_beneath, plain}}) {
    expect_error<UserError>(
        [&] { scan(body, Tensors{init}, Tensors{xs}); },
        "[scan] the body writes to what is a view of a contiguous carry and a copy of one that is not,");
  }
}

// A range that begins at a tensor is a view, read and written by indices that only the run knows.
TEST(Scan, TakesRangesThatBeginAtATensor) {
  const auto body = [](const at::Tensor& table) {
    return [table](const Tensors& carry, const Tensors& x) -> std::pair<Tensors, Tensors> {
      const at::Tensor copy = table * 1;
      const at::Tensor part = copy.narrow(0, carry[0], 2);
      part.mul_(x[0]);
      copy.narrow(1, -carry[0] - 1, 1).add_(part.sum());
      return {{carry[0] + 1}, {copy.sin(), part * 2}};
    };
  };
  const Tensors inputs{leaf64({4, 3}), leaf64({3, 3}, 0.3)};
  const at::Tensor first = at::scalar_tensor(0, at::kLong);
  const auto ours = [&](const Tensors& t) { return scan(body(t[0]), Tensors{first}, Tensors{t[1]}).second; };
  const auto loop = [&](const Tensors& t) { return unrolled_scan(body(t[0]), Tensors{first}, Tensors{t[1]}).second; };
  const auto gradients = [&](const Tensors& results) {
    return torch::autograd::grad({results[0].sum() + results[1].square().sum()}, inputs);
  };
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(torch::allclose(ours(inputs)[i], loop(inputs)[i]));
    EXPECT_TRUE(torch::allclose(aot_function(ours)(inputs)[i], loop(inputs)[i]));
    EXPECT_TRUE(torch::allclose(gradients(ours(inputs))[i], gradients(loop(inputs))[i]));
  }
  const auto indexed = [&](const Tensors& carry, const Tensors& x) -> std::pair<Tensors, Tensors> {
    return {carry, {x[0].index({carry[0]})}};
  };
  expect_error<UserError>([&] { scan(indexed, Tensors{first}, Tensors{inputs[1]}); }, "index_select or gather");
}

}  // namespace
}  // namespace diptych::testing
