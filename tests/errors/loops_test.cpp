// What scan, map, cond and while_loop refuse, by the path of what is wrong and with the remedy.
#include <map>

#include "testing/refusal.h"

namespace diptych::testing {
namespace {

using Named = std::map<std::string, at::Tensor>;

at::Tensor ones(at::IntArrayRef sizes) { return torch::ones(sizes); }

// Both outside a capture and inside one.
template <class Action>
void expect_refused(const Action& action, const std::vector<std::string>& parts) {
  expect_refusal([&] { (void)action(); }, parts);
  expect_refusal(
      [&] {
        (void)capture(
            [&](const at::Tensor& x) {
              (void)action();
              return x * 2;
            },
            ones({2}));
      },
      parts);
}

template <class Body, class Carry>
auto scan_of(const Body& body, const Carry& init) {
  return [=] { return scan(body, init, ones({3, 2})).second; };
}

// Carries.
TEST(LoopErrors, ACarryThatChangesItsSizes) {
  const auto body = [](const Tensors& c, const at::Tensor& x) { return std::pair(Tensors{c[0], c[1].sum()}, x); };
  expect_refused(
      scan_of(body, Tensors{ones({2}), ones({2})}),
      {"[scan] 'carry.1' is f32[2] at first, but the body returns it as f32[]", "convert what the body returns"});
}

TEST(LoopErrors, ACarryThatChangesItsDtype) {
  const auto body = [](const Named& c, const at::Tensor& x) {
    return std::pair(Named{{"h", c.at("h").to(torch::kFloat64)}}, x);
  };
  expect_refused(scan_of(body, Named{{"h", ones({2})}}),
                 {"[scan] 'carry.h' is f32[2] at first, but the body returns it as f64[2]"});
  expect_refused(
      [] {
        return while_loop([](const at::Tensor& c) { return c.sum() < 3; },
                          [](const at::Tensor& c) { return c.to(torch::kFloat64); }, ones({2}));
      },
      {"[while_loop] 'carry' is f32[2] at first, but the body returns it as f64[2]"});
}

TEST(LoopErrors, ACarryThatChangesItsStructure) {
  const auto body = [](Tensors c, const at::Tensor& x) {
    c.push_back(x);
    return std::pair(c, x);
  };
  expect_refused(scan_of(body, Tensors{ones({2})}),
                 {"[scan] the body's carry has another structure", "return the same"});
  expect_refused(
      [] {
        return while_loop([](const Tensors& c) { return c[0].sum() < 3; },
                          [](const Tensors& c) {
                            return Tensors{c[0], c[0]};
                          },
                          Tensors{ones({2})});
      },
      {"[while_loop] the body's carry has another structure"});
}

TEST(LoopErrors, AnUndefinedCarry) {
  const auto body = [](const Tensors& c, const at::Tensor& x) { return std::pair(c, x); };
  expect_refused(scan_of(body, Tensors{ones({2}), at::Tensor()}),
                 {"[scan] 'carry.1' is an undefined tensor", "absent optional"});
}

// Slices and lengths.
template <class Xs>
auto scan_over(const Xs& xs, const ScanOptions& options = {}) {
  return [=] {
    return scan([](const at::Tensor& c, const Xs&) { return std::pair(c * 2, c); }, ones({2}), xs, options).second;
  };
}

TEST(LoopErrors, SlicesOfUnequalLengths) {
  expect_refused(scan_over(Tensors{ones({3, 2}), ones({4})}),
                 {"[scan] 'xs.1' has 4 slices along its first dimension, 'xs.0' has 3", "one length"});
  expect_refused(
      [] {
        return map([](const Tensors& x) { return x[0]; }, Tensors{ones({3}), ones({2})});
      },
      {"'xs.1' has 2 slices"});
}

TEST(LoopErrors, AScalarAmongTheSlices) {
  expect_refused(scan_over(Tensors{ones({3}), ones({})}),
                 {"[scan] 'xs.1' is a scalar and has no dimension to slice along", "capture it in the body"});
}

TEST(LoopErrors, AnUndefinedSlice) {
  expect_refused(scan_over(Tensors{ones({3}), at::Tensor()}), {"[scan] 'xs.1' is an undefined tensor"});
}

TEST(LoopErrors, NoLength) {
  expect_refused(scan_over(Tensors{}),
                 {"[scan] got no tensor to slice; set options.length to the number of", "options.length"});
}

TEST(LoopErrors, AnotherLengthThanTheSlices) {
  expect_refused(scan_over(ones({3}), {.length = 4}), {"[scan] options.length is 4, but 'xs' has 3 slices"});
}

TEST(LoopErrors, ANegativeLength) {
  expect_refused(scan_over(Tensors{}, {.length = -1}), {"[scan] options.length is -1, expected 0 or more"});
}

TEST(LoopErrors, FewerThanOneSavedCarry) {
  expect_refused(scan_over(ones({3}), {.max_saved_carries = 0}), {"[scan] options.max_saved_carries is 0"});
  expect_refused(scan_over(ones({3}), {.max_saved_carries = 2, .segment = 0}), {"[scan] options.segment is 0"});
  expect_refused(scan_over(ones({3}), {.unroll = 0}), {"[scan] options.unroll is 0, expected 1 or more"});
}

// What bodies change.
// A later step would change what an earlier one gave out.
TEST(LoopErrors, ACarryThatIsChangedInPlaceAndGivenOut) {
  const auto body = [](at::Tensor c, const at::Tensor& x) { return std::pair(c.add_(x), c); };
  expect_refused(scan_of(body, ones({2})), {"[scan] the body changes the carry 'carry' in place",
                                            "shares memory with 'ys'", "return clone() of one of them"});
  const auto next = [](at::Tensor c, const at::Tensor& x) {
    const at::Tensor made = c * x;
    c.add_(1);
    return std::pair(made, made.view({-1}));
  };
  expect_refused(scan_of(next, ones({2})), {"[scan] the body changes the carry 'carry' in place", "with 'ys'"});
}

TEST(LoopErrors, ACarryThatIsChangedInPlaceAndReturnedAsAView) {
  const auto body = [](at::Tensor c, const at::Tensor& x) { return std::pair(c.add_(x).view({2}), x); };
  expect_refused(scan_of(body, ones({2})), {"[scan] the body changes the carry 'carry' in place", "with 'carry'"});
}

TEST(LoopErrors, ACarryOfWhileThatIsChangedInPlaceAndDropped) {
  expect_refusal(
      [] {
        (void)while_loop([](const at::Tensor& c) { return c.sum() < 9; }, [](at::Tensor c) { return c.add_(1) * 2; },
                         ones({2}));
      },
      {"[while_loop] the body changes its argument 'carry' in place, and returns another", "return the changed one"});
}

TEST(LoopErrors, AnArgumentThatIsChangedInPlaceAndCaptured) {
  const at::Tensor start = ones({2});
  const auto body = [&](at::Tensor c, const at::Tensor& x) { return std::pair(c.add_(x), x * start); };
  expect_refusal(
      [&] {
        (void)scan(body, start, ones({3, 2}));
      },
      {"[scan] the body changes its argument 'carry' in place, whose memory 'free.0' shares", "clone()"});
}

TEST(LoopErrors, ABufferWhoseMemoryIsSharedInsideACapture) {
  const auto f = [](const at::Tensor& buffer, const at::Tensor& x) {
    const at::Tensor view = buffer[0];
    return scan(
               [&](const at::Tensor& c, const at::Tensor& row) {
                 const torch::NoGradGuard guard;
                 at::Tensor(buffer).add_(1);
                 return std::pair(c * view, row);
               },
               ones({2}), x)
        .first;
  };
  expect_capture_refused(f,
                         {"[scan] the body changes a captured tensor (free.0) in place, whose memory 'free.1' shares"},
                         ones({3, 2}), ones({3, 2}));
}

TEST(LoopErrors, ABufferThatIsCarriedToo) {
  const at::Tensor buffer = ones({2});
  const auto body = [&](const at::Tensor& c, const at::Tensor& x) {
    const torch::NoGradGuard guard;
    at::Tensor(buffer).add_(1);
    return std::pair(c * x, x);
  };
  expect_refusal(
      [&] {
        (void)scan(body, buffer.view({2}), ones({3, 2}));
      },
      {"[scan] the body changes a captured tensor (free.0) in place, whose memory 'carry' shares"});
}

// The body meets the buffer itself, and what stands for it in the capture around the loop.
TEST(LoopErrors, ABufferThatIsAnArgumentOfTheCaptureToo) {
  const at::Tensor buffer = ones({2});
  const auto change = [=] {
    const torch::NoGradGuard guard;
    at::Tensor(buffer).add_(1);
  };
  const auto read = [&](const at::Tensor& argument) {
    return map([&](const at::Tensor& x) { return change(), x + argument; }, ones({3, 2}));
  };
  const auto carried = [&](const at::Tensor& argument) {
    return scan([&](const at::Tensor& c, const at::Tensor& x) { return change(), std::pair(c + 1, x); }, argument,
                ones({3, 2}));
  };
  const auto sliced = [&](const at::Tensor& argument) {
    return map([&](const at::Tensor& x) { return change(), x + 1; }, argument);
  };
  expect_capture_refused(read, {"[scan] the body changes a captured tensor", "in place, whose memory 'free.1' shares"},
                         buffer);
  expect_capture_refused(carried, {"in place, whose memory 'carry' shares"}, buffer);
  expect_capture_refused(sliced, {"in place, whose memory 'xs' shares"}, buffer);
  expect_refusal([&] { (void)carried(buffer); }, {"in place, whose memory 'carry' shares"});
}

TEST(LoopErrors, ABufferThatIsReturnedAsTheCarry) {
  const at::Tensor buffer = ones({2});
  for (const bool is_view : {false, true}) {
    const auto body = [=](const at::Tensor& c, const at::Tensor& x) {
      at::Tensor(buffer).add_(x);
      return std::pair(is_view ? buffer.view({2}) : buffer, c);
    };
    expect_refusal(scan_of(body, ones({2})), {"[scan] the body changes a captured tensor in place, and returns what "
                                              "shares its memory as the carry 'carry'",
                                              "return clone() of it"});
  }
}

// Autograd takes the sum of what was added; the graph, in which the buffer is a carry, would double it in each step.
TEST(LoopErrors, ABufferThatIsChangedWithAndWithoutAutograd) {
  const at::Tensor buffer = ones({2}), x = ones({2}).requires_grad_();
  const auto sum = [&](auto change) {
    return [=] {
      return map(
          [=](const at::Tensor& row) {
            change(at::Tensor(buffer));
            at::Tensor(buffer).add_(x);
            return row * buffer;
          },
          ones({3, 2}));
    };
  };
  const char* const words = "in place where autograd sees it and where it does not (under no_grad or through detach())";
  expect_refusal(sum([](const at::Tensor& t) { t.detach().mul_(2); }), {"[scan] the body changes", words});
  expect_refusal(sum([](const at::Tensor& t) {
                   const torch::NoGradGuard guard;
                   t.view({2}).mul_(2);
                 }),
                 {"[scan] the body changes", words});
}

TEST(LoopErrors, ACopyUnderNoGradOfACarryThatIsNotContiguous) {
  const at::Tensor c = ones({3, 2}).requires_grad_();
  const auto body = [](const at::Tensor& c, const at::Tensor& x) {
    const torch::NoGradGuard guard;
    return std::pair(c.contiguous(), x.clone());
  };
  expect_refusal(scan_of(body, c.t()), {"[scan] the body copies a carry under no_grad that is not contiguous"});
  EXPECT_EQ(scan(body, c, ones({3, 2})).first.sizes(), c.sizes());
}

TEST(LoopErrors, ACapturedTensorReshaped) {
  const at::Tensor w = ones({2, 1});
  const auto body = [&](const at::Tensor& c, const at::Tensor& x) {
    at::Tensor(w).t_();
    return std::pair(c, x);
  };
  expect_refusal([&] { (void)scan_of(body, ones({2}))(); },
                 {"changes the shape of a captured tensor (free.0) in place"});
}

// Conditions.
auto while_of(std::function<at::Tensor(const at::Tensor&)> condition) {
  return [=] {
    return while_loop([&](const at::Tensor& c) { return condition(c); }, [](const at::Tensor& c) { return c + 1; },
                      ones({2}));
  };
}

TEST(LoopErrors, AConditionOfSeveralElements) {
  expect_refused(while_of([](const at::Tensor& c) { return c < 3; }),
                 {"[while_loop] the condition returns b8[2], expected one element", "any() or all()"});
}

TEST(LoopErrors, AConditionThatChangesWhatItGets) {
  expect_refused(while_of([](const at::Tensor& c) { return at::Tensor(c).add_(1).sum() < 9; }),
                 {"[while_loop] the condition changes 'carry' in place", "in the body"});
}

TEST(LoopErrors, NoStepsBetweenKeptCarries) {
  expect_refused(
      [] {
        return while_loop([](const at::Tensor& c) { return c.sum() < 3; }, [](const at::Tensor& c) { return c + 1; },
                          ones({2}), {.checkpoint_every = 0});
      },
      {"[while_loop] options.checkpoint_every is 0"});
}

// Branches.
using Branch = std::function<Tensors(const at::Tensor&)>;
auto cond_of(const at::Tensor& predicate, Branch if_true, Branch if_false, const at::Tensor& x = ones({2})) {
  return [=] { return cond(predicate, if_true, if_false, x); };
}
Branch returning(const Tensors& tensors) {
  return [=](const at::Tensor& x) {
    Tensors results;
    for (const at::Tensor& tensor : tensors) results.push_back(tensor * x.sum().to(tensor.scalar_type()));
    return results;
  };
}

TEST(LoopErrors, APredicateOfSeveralElements) {
  const Branch same = returning({ones({2})});
  expect_refused(cond_of(torch::ones({2}, torch::kBool), same, same),
                 {"[cond] the predicate is b8[2], expected one element"});
  expect_refused(cond_of(at::Tensor(), same, same), {"[cond] the predicate is an undefined tensor"});
}

TEST(LoopErrors, BranchesThatReturnDifferentNumbers) {
  expect_refused(cond_of(torch::tensor(true), returning({ones({2})}), returning({ones({2}), ones({2})})),
                 {"[cond] the true function returns 1 tensors, the false function 2"});
}

TEST(LoopErrors, BranchesThatDisagreeAboutSizesOrDtype) {
  expect_refused(cond_of(torch::tensor(true), returning({ones({2}), ones({3})}), returning({ones({2}), ones({4})})),
                 {"[cond] '1' is f32[3] in the true function's result, f32[4] in the false function's;"});
  expect_refused(cond_of(torch::tensor(true), returning({ones({2})}), returning({torch::ones({2}, torch::kLong)})),
                 {"[cond] '0' is f32[2] in the true function's result, i64[2] in the false function's;"});
}

TEST(LoopErrors, BranchesOfDifferentStructure) {
  const auto named = [](const char* name) { return [=](const at::Tensor& x) { return Named{{name, x * 2}}; }; };
  expect_refused([=] { return cond(torch::tensor(true), named("a"), named("b"), ones({2})); },
                 {"[cond] the result of the false function has another structure"});
}

TEST(LoopErrors, AnArgumentOfCondThatIsUndefined) {
  const Branch same = returning({ones({2})});
  expect_refused(cond_of(torch::tensor(true), same, same, at::Tensor()), {"[cond] 'arg0' is an undefined tensor"});
}

// Differentiation.
TEST(LoopErrors, DropoutInAWhileLoopInsideACapture) {
  const auto f = [](const at::Tensor& x) {
    return while_loop([](const at::Tensor& c) { return c.sum() < 9; },
                      [](const at::Tensor& c) { return torch::dropout(c, 0.5, true) + 1; }, x);
  };
  expect_capture_refused(f, {"[while_loop] the body draws random numbers", "pass the numbers in"}, ones_leaf({2}));
}

TEST(LoopErrors, DrawingAndComputingAtOnce) {
  const at::Tensor x = ones_leaf({3, 2});
  expect_refusal([&] { (void)map([](const at::Tensor& row) { return at::rrelu(row, 0.1, 0.3, true); }, x); },
                 {"[hops]", "draws random numbers and computes with them in one operator,", "bernoulli"});
}

TEST(LoopErrors, SecondOrderThroughAHiddenMutation) {
  const at::Tensor x = ones_leaf({3, 2});
  expect_refusal(
      [&] {
        const at::Tensor y = map(
            [](const at::Tensor& row) {
              const at::Tensor h = row * 2;
              h.detach().add_(1);
              return h.pow(3);
            },
            x);
        (void)torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true);
      },
      {"the body changes a tensor in place where autograd does not see it", "out-of-place"});
}

// Autograd takes the gradient of what was there before; the graph, which is pure, knows nothing of that.
TEST(LoopErrors, AHiddenMutationInALoopThatIsRunAgain) {
  const at::Tensor x = ones_leaf({2});
  const auto loop = [](const at::Tensor& t) {
    const auto last = while_loop([](const Tensors& c) { return c[1] < 2; },
                                 [&](const Tensors& c) {
                                   const at::Tensor h = c[0] * t;
                                   const torch::NoGradGuard guard;
                                   h.zero_();
                                   return Tensors{h, c[1] + 1};
                                 },
                                 Tensors{t, torch::zeros({}, torch::kLong)});
    return last[0];
  };
  expect_refusal([&] { aot_function(loop)(x).sum().backward(); },
                 {"[while_loop] the body calls a torch::autograd::Function or registers a hook, or changes a tensor in "
                  "place where autograd",
                  "out-of-place"});
}

// Its graph does not show a hook, so neither what is run again nor a second derivative would call it.
TEST(LoopErrors, AHookInABodyWhoseGraphIsDifferentiated) {
  const at::Tensor x = ones_leaf({3, 2});
  const auto hooked = [](const at::Tensor& t) {
    const at::Tensor h = t * 2;
    h.register_hook([](const at::Tensor& gradient) { return gradient * 3; });
    return h.exp();
  };
  const auto loop = [&](const at::Tensor& t) {
    return while_loop([](const at::Tensor& c) { return c.sum() < 9; }, hooked, t);
  };
  const std::vector<std::string> words{"the body calls a torch::autograd::Function or registers a hook"};
  expect_refusal([&] { aot_function(loop)(x).sum().backward(); }, words);
  expect_refusal([&] { (void)torch::autograd::grad({map(hooked, x).sum()}, {x}, {}, true, /*create_graph=*/true); },
                 words);
  const auto in_a_branch = [&](const at::Tensor& t) {
    return while_loop([](const at::Tensor& c) { return c.sum() < 9; },
                      [&](const at::Tensor& c) { return cond(c.sum() > 0, hooked, hooked, c); }, t);
  };
  expect_refusal([&] { aot_function(in_a_branch)(x).sum().backward(); }, words);
}

}  // namespace
}  // namespace diptych::testing
