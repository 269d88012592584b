// What a function may not do while it is traced: read values, change storages, let tensors escape.
#include <thread>

#include "testing/refusal.h"

namespace diptych::testing {
namespace {

TEST(DataDependent, NamesTheOperatorAndTheScope) {
  const auto f = [](const at::Tensor& x) {
    const auto block = scope("block3");
    const auto attn = scope("attn");
    return x.sum().item<float>() > 0 ? x * 2 : x;
  };
  expect_capture_refused(f,
                         {"[trace] aten::item in scope 'block3/attn' needs the values of a tensor", "where, masking"},
                         torch::ones({2}));
}

TEST(DataDependent, RefusesShapesThatDependOnValues) {
  expect_capture_refused([](const at::Tensor& x) { return x.nonzero(); },
                         {"aten::nonzero", "needs the values of a tensor"}, torch::ones({2}));
  expect_capture_refused([](const at::Tensor& x) { return x.masked_select(x > 0); },
                         {"aten::masked_select", "needs the values"}, ones_leaf({2}));
  expect_capture_refused([](const at::Tensor& x) { return std::get<0>(at::_unique(x)); },
                         {"aten::_unique", "needs the values"}, torch::ones({2}));
  expect_capture_refused([](const at::Tensor& x) { return x.index({x > 0}); }, {"needs the values"}, torch::ones({2}));
}

TEST(DataDependent, RefusesABoolOfATensor) {
  expect_capture_refused([](const at::Tensor& x) { return at::equal(x, x) ? x * 2 : x; },
                         {"aten::equal", "needs the values"}, torch::ones({2}));
  expect_capture_refused([](const at::Tensor& x) { return x.is_nonzero() ? x * 2 : x; }, {"needs the values"},
                         torch::ones({}));
}

TEST(Storages, RefusesSetAndResize) {
  expect_capture_refused([](const at::Tensor& x) { return x.mul(2).resize_({4}); },
                         {"[trace] aten::resize_ changes a tensor's storage", "copy_ into the tensor"},
                         torch::ones({2}));
  expect_capture_refused([](const at::Tensor& x) { return x.mul(2).set_(torch::ones({3})); },
                         {"aten::set_", "changes a tensor's storage"}, torch::ones({2}));
}

at::Tensor double_in_place(at::Tensor x) { return x.mul_(2); }
TORCH_LIBRARY(diptych_test, m) { m.def("double_in_place(Tensor(a!) x) -> Tensor(a!)", double_in_place); }
at::Tensor first_row(at::Tensor x) { return x.select(0, 0); }
at::Tensor positive(at::Tensor x) { return x.masked_select(x > 0); }
TORCH_LIBRARY_FRAGMENT(diptych_test, m) {
  m.def("kernel_in_place(Tensor(a!) x) -> Tensor(a!)");
  m.def("first_row(Tensor(a) x) -> Tensor(a)");
  m.def("positive(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(diptych_test, CPU, m) {
  m.impl("kernel_in_place", double_in_place);
  m.impl("first_row", first_row);
  m.impl("positive", positive);
}

at::Tensor call_test_operator(const char* name, const at::Tensor& x) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<at::Tensor(at::Tensor)>().call(x);
}

TEST(Operators, RefusesViewsThatFunctionalizationDoesNotKnow) {
  const auto refused = [](const at::Tensor& x) { return call_test_operator("diptych_test::first_row", x) * 2; };
  EXPECT_TRUE(at::equal(refused(torch::ones({2, 2})), torch::full({2}, 2.0F)));
  expect_capture_refused(refused, {"[trace] diptych_test::first_row changes an argument or returns a view"},
                         torch::ones({2, 2}));
}

TEST(Operators, WriteToArgumentsOfCapturedFunctions) {
  for (const char* name : {"diptych_test::kernel_in_place", "diptych_test::double_in_place"}) {
    const auto function = [&](const at::Tensor& x) {
      const at::Tensor same = call_test_operator(name, x.slice(0, 1));
      return same + x.sum();
    };
    const at::Tensor x = torch::ones({3}), y = torch::ones({3});
    EXPECT_TRUE(at::equal(aot_function(function)(x), function(y)));
    EXPECT_TRUE(at::equal(x, y));
  }
  const auto overlapping = [](const at::Tensor& x) {
    return call_test_operator("diptych_test::kernel_in_place", x.expand({2, 2})) + 1;
  };
  expect_capture_refused(overlapping, {"diptych_test::kernel_in_place", "whose elements overlap"}, torch::ones({2}));
}

TEST(Operators, WithoutAKernelForShapesAreRunForTheSizesOfTheirResults) {
  const auto function = [](const at::Tensor& x) { return call_test_operator("diptych_test::positive", x) * 2; };
  const auto compiled = aot_function(function);
  for (const at::Tensor& x : {torch::ones({3}), torch::tensor({1.0F, -1.0F, 2.0F}), torch::ones({3})}) {
    EXPECT_TRUE(at::equal(compiled(x), function(x)));
  }
  EXPECT_EQ(compiled.stats().misses, 2);
  EXPECT_EQ(compiled.stats().originals, 0);
  expect_refusal([&] { (void)capture(function, torch::ones({3})); },
                 {"diptych_test::positive", "sizes of its results depend on values"});
}

TEST(Views, TakesAChangeOfAViewOfOtherStrides) {
  const auto change = [](const at::Tensor& x) {
    const at::Tensor y = x.mul(2);
    y.slice(0, 0, 2).as_strided({2}, {2}).add_(1);
    return y;
  };
  EXPECT_TRUE(at::equal(aot_function(change)(torch::ones({4})), change(torch::ones({4}))));
}

TEST(Gradients, RefusesABackwardThatReachesTheOutside) {
  const auto w = ones_leaf({2});
  for (const at::Tensor& outside : {w, w * 2}) {
    expect_capture_refused(
        [&](const at::Tensor& x) {
          (outside * x).sum().backward();
          return x * 2;
        },
        {"[capture] the function calls backward(), which would accumulate into the .grad of 'free.0',",
         "value_and_grad"},
        torch::ones({2}));
  }
  const auto inside = [](const at::Tensor& x) {
    const auto leaf = x.detach().requires_grad_();
    leaf.square().sum().backward();
    return leaf.grad() + 0;
  };
  EXPECT_TRUE(at::equal(aot_function(inside)(torch::ones({2})), inside(torch::ones({2}))));
}

TEST(Gradients, RefusesHooksAndRetainedGradientsThatWouldMissAPart) {
  const auto hooked = [](const at::Tensor& x) {
    x.register_hook([](const at::Tensor& grad) { return grad * 2; });
    return x;
  };
  expect_refusal([&] { (void)aot_function(hooked)(ones_leaf({2})); },
                 {"[capture] the function registers a hook on 'arg0' and returns it as output 'out'"});
  const auto retaining = [](const at::Tensor& x) {
    const at::Tensor y = x.sin();
    y.retain_grad();
    return std::make_pair(y, y * 3);
  };
  expect_refusal([&] { (void)capture(retaining, ones_leaf({2})); }, {"[capture] output '0' retains its gradient, but"});
}

TEST(Storages, RefusesSetDataOnAnArgument) {
  const auto f = [](const at::Tensor& x) {
    x.set_data(torch::zeros({2}));
    return x * 2;
  };
  expect_capture_refused<std::exception>(f, {"set_data"}, torch::ones({2}));
}

TEST(RefusedRequiresGrad, MayNotChangeOnAnArgument) {
  const auto f = [](const at::Tensor& x) { return x.requires_grad_() * 2; };
  expect_capture_refused(
      f, {"[capture] the function changes the requires_grad or the history of 'arg0'", "outside the function"},
      torch::ones({2}));
  const auto g = [](const at::Tensor& x) {
    x.detach_();
    return x * 2;
  };
  expect_capture_refused(g, {"[capture] the function changes the requires_grad or the history of 'arg0'", "detach_()"},
                         ones_leaf({2}));
  for (const bool requires_grad : {false, true}) {
    const auto cuts = [&](const at::Tensor& x) {
      x.detach_();
      return x.mul_(2).requires_grad_(requires_grad).sum();
    };
    expect_capture_refused(cuts, {"[capture] the function detaches 'arg0' from its history", "call detach_() outside"},
                           ones_leaf({2}) * 2);
  }
}

TEST(RefusedHooks, MayNotStandBeforeWhatIsMadeOutsideTheGraph) {
  const auto twice = [](const at::Tensor& gradient) { return gradient * 2; };
  const auto on_the_argument = [&](const at::Tensor& x) {
    x.register_hook(twice);
    return x.view(-1);
  };
  const auto on_the_view = [&](const at::Tensor& x) {
    const at::Tensor view = x.view(-1);
    view.register_hook(twice);
    return view;
  };
  const auto on_a_view_of_a_result = [&](const at::Tensor& x) {
    const at::Tensor y = x * 2, view = y.view(-1);
    view.register_hook(twice);
    return std::vector<at::Tensor>{y, view};
  };
  const std::vector<std::string> words{"is a view that is taken again outside the graph", "return a clone"};
  for (const at::Tensor& x : {ones_leaf({2}), ones_leaf({2}) * 2}) {
    expect_refusal([&] { (void)aot_function(on_the_argument)(x); }, words);
    expect_refusal([&] { (void)aot_function(on_the_view)(x); }, words);
    expect_refusal([&] { (void)aot_function(on_a_view_of_a_result)(x); }, words);
  }
}

TEST(RefusedHooks, MayNotStayWithATensorAfterTheCall) {
  const auto twice = [](const at::Tensor& gradient) { return gradient * 2; };
  using Step = std::function<at::Tensor(const at::Tensor&)>;
  const std::vector<Step> steps{[&](const at::Tensor& x) { return (void)x.register_hook(twice), x * 3; },
                                [&](const at::Tensor& x) {
                                  const at::Tensor y = x * 3;
                                  y.register_hook(twice);
                                  return y;
                                },
                                [&](const at::Tensor& x) {
                                  const at::Tensor y = x * 3;
                                  y.register_hook(twice);
                                  y.retain_grad();
                                  return y;
                                }};
  const std::vector<std::string> words{"[capture] the function registers a hook on", "on a clone"};
  for (const Step& step : steps) {
    expect_refusal([&] { (void)aot_function(step)(ones_leaf({2})); }, words);
    expect_refusal([&] { (void)aot_function(step)(ones_leaf({2}) * 2); }, words);
  }
  const Step retains = [](const at::Tensor& x) { return x.retain_grad(), x * 3; };
  expect_refusal([&] { (void)aot_function(retains)(ones_leaf({2}) * 2); }, words);
  const Step on_clones = [&](const at::Tensor& x) {
    const at::Tensor y = x.clone();
    y.register_hook(twice);
    return y * 3;
  };
  const at::Tensor x = ones_leaf({2});
  aot_function(on_clones)(x).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), torch::full({2}, 6.0)));
}

TEST(Leaves, MayNotBeChangedInPlaceAsInEager) {
  const auto f = [](const at::Tensor& x) { return x.add_(1) * 2; };
  expect_capture_refused<c10::Error>(f, {"a leaf Variable that requires grad is being used in an in-place operation"},
                                     ones_leaf({2}));
  expect_capture_refused<c10::Error>(
      [](const at::Tensor& x) { return x.select(0, 0).zero_(); },
      {"a view of a leaf Variable that requires grad is being used in an in-place operation"}, ones_leaf({2}));
}

TEST(Shapes, KeepEagersWords) {
  const auto f = [](const at::Tensor& x) { return x.matmul(torch::ones({5, 2})); };
  expect_capture_refused<c10::Error>(f, {"mat1 and mat2 shapes cannot be multiplied (2x3 and 5x2)"}, ones_leaf({2, 3}));
  expect_capture_refused<c10::Error>([](const at::Tensor& x) { return x + torch::ones({4}); },
                                     {"The size of tensor a (3) must match the size of tensor b (4)"},
                                     ones_leaf({2, 3}));
}

TEST(UsersExceptions, PassThroughUnchanged) {
  struct Mine : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  const auto f = [](const at::Tensor& x) -> at::Tensor {
    const auto block = scope("block");
    const torch::NoGradGuard no_grad;
    const at::Tensor y = x * 2;
    throw Mine("the user's own words");
  };
  expect_capture_refused<Mine>(f, {"the user's own words"}, ones_leaf({2}));
}

TEST(UsersExceptions, InAnAutocastRegionLeaveItAsItWas) {
  at::autocast::set_autocast_enabled(c10::kCPU, true);
  const auto f = [](const at::Tensor& x) -> at::Tensor {
    const at::Tensor y = x.matmul(x);
    throw std::runtime_error("in autocast");
  };
  const ThreadState before;
  EXPECT_THROW((void)capture(f, ones_leaf({2, 2})), std::runtime_error);
  EXPECT_TRUE(before == ThreadState());
  at::autocast::set_autocast_enabled(c10::kCPU, false);
  at::autocast::clear_cache();
  expect_good_call();
}

// A stand-in that the function stored somewhere, and that outlived the trace.
at::Tensor escaped_tensor() {
  at::Tensor stored;
  (void)capture([&](const at::Tensor& x) { return stored = x * 2; }, ones_leaf({2}));
  return stored;
}

TEST(Escapes, AreRefusedOutsideATrace) {
  const auto stored = escaped_tensor();
  expect_refusal([&] { (void)(stored + 1); },
                 {"[trace]", "got a tensor that escaped from a trace that has ended", "return it"});
  expect_refusal([&] { stored.add_(1); }, {"got a tensor that escaped from a trace that has ended"});
  expect_refusal([&] { stored.sum().backward(); }, {"got a tensor that escaped from a trace that has ended"});
}

TEST(Escapes, AreRefusedInsideAnotherTrace) {
  const auto stored = escaped_tensor();
  expect_capture_refused([&](const at::Tensor& x) { return x + stored; },
                         {"[trace] got a tensor that escaped from a trace"}, ones_leaf({2}));
  expect_capture_refused([&](const at::Tensor&) { return stored; }, {"got a tensor that escaped from a trace"},
                         ones_leaf({2}));
}

TEST(Escapes, AreRefusedAsArguments) {
  const auto stored = escaped_tensor();
  expect_capture_refused([](const at::Tensor& x) { return x * 2; }, {"got a tensor that escaped from a trace"}, stored);
}

TEST(Nesting, CapturesInsideACapture) {
  const auto x = ones_leaf({3});
  std::string inner_code;
  const auto f = [&](const at::Tensor& t) {
    const Pair inner = capture([](const at::Tensor& u) { return u.sin() * u; }, t * 2);
    inner_code = inner.code();
    return inner.forward_call({t * 2}).outputs[0] + t;
  };
  const ThreadState before;
  const Pair outer = capture(f, x);
  EXPECT_TRUE(before == ThreadState());
  EXPECT_NE(inner_code.find("aten.sin"), std::string::npos) << inner_code;
  EXPECT_TRUE(at::equal(outer.forward_call({x}).outputs[0], (x * 2).sin() * (x * 2) + x)) << outer.code();
}

TEST(Nesting, CapturesOnRealTensorsInsideACapture) {
  const auto x = ones_leaf({3});
  const auto real = torch::arange(3.0);
  at::Tensor inner_value;
  const auto f = [&](const at::Tensor& t) {
    const Pair inner = capture([](const at::Tensor& u) { return u * 3; }, real);
    EXPECT_EQ(inner.forward.nodes().size(), 1U);
    return t * 2;
  };
  const Pair outer = capture(f, x);
  EXPECT_EQ(outer.forward.nodes().size(), 1U) << outer.code();
}

TEST(Nesting, AnErrorInTheInnerCaptureMayBeCaught) {
  const auto f = [](const at::Tensor& t) {
    EXPECT_THROW((void)capture([](const at::Tensor& u) { return u.nonzero(); }, t), UserError);
    return t.exp();
  };
  const auto x = ones_leaf({3});
  const ThreadState before;
  const auto y = aot_function(f)(x);
  EXPECT_TRUE(before == ThreadState());
  EXPECT_TRUE(at::equal(y, x.exp()));
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), x.exp()));
}

TEST(Nesting, InlinesACompiledFunctionInACapture) {
  const auto inner = aot_function([](const at::Tensor& t) { return t.tanh(); });
  const auto x = ones_leaf({3});
  const Pair pair = capture([&](const at::Tensor& t) { return inner(t) * t; }, x);
  EXPECT_NE(pair.forward.code().find("aten.tanh"), std::string::npos);
  EXPECT_EQ(inner.stats().misses, 0U);
}

TEST(ThreadsInTraces, TraceAtTheSameTime) {
  constexpr int kThreads = 6;
  std::vector<std::string> codes(kThreads), failures(kThreads);
  const auto shared = ones_leaf({4});
  const auto work = [&](int id) {
    try {
      const ThreadState before;
      for (int round = 0; round < 8; ++round) {
        const auto x = torch::full({4}, 0.1F * static_cast<float>(id + 1)).requires_grad_();
        const auto f = [&](const at::Tensor& t) {
          const auto block = scope("thread" + std::to_string(id));
          at::Tensor y = t;
          for (int i = 0; i <= id; ++i) y = (y * shared).tanh();
          return y.sum();
        };
        if (round % 2 == 1) {
          try {
            (void)capture([](const at::Tensor& t) { return t.nonzero(); }, x);
            failures[id] = "nonzero was not refused";
          } catch (const UserError&) {
          }
        }
        const auto value = aot_function(f)(x);
        const auto gradients = torch::autograd::grad({value}, {x})[0];
        const auto wanted = torch::autograd::grad({f(x)}, {x})[0];
        if (!at::allclose(gradients, wanted)) failures[id] = "wrong gradient";
        codes[id] = capture(f, x).forward.code();
      }
      if (!(before == ThreadState())) failures[id] = "thread-local state left behind";
    } catch (const std::exception& error) {
      failures[id] = error.what();
    }
  };
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; ++id) threads.emplace_back(work, id);
  for (auto& thread : threads) thread.join();
  for (int id = 0; id < kThreads; ++id) {
    EXPECT_EQ(failures[id], "") << id;
    size_t tanhs = 0;
    for (size_t at = codes[id].find("aten.tanh("); at != std::string::npos; at = codes[id].find("aten.tanh(", at + 1))
      ++tanhs;
    EXPECT_EQ(tanhs, static_cast<size_t>(id + 1)) << codes[id];
    EXPECT_NE(codes[id].find("# thread" + std::to_string(id)), std::string::npos) << codes[id];
  }
}

}  // namespace
}  // namespace diptych::testing
