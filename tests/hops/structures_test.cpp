// Carries, slices and outputs that are structs, maps, tuples and optionals, through every operator.
#include <map>
#include <optional>

#include "hops/unrolled.h"

namespace diptych::testing {
namespace {

struct State {
  at::Tensor h;
  std::map<std::string, at::Tensor> sums;
  std::optional<at::Tensor> count;
  std::tuple<at::Tensor, int64_t> rest;
  DIPTYCH_FIELDS(h, sums, count, rest)
};

struct Slice {
  at::Tensor x;
  std::vector<at::Tensor> more;
  std::optional<at::Tensor> absent;
  DIPTYCH_FIELDS(x, more, absent)
};

struct Given {
  std::pair<at::Tensor, std::optional<at::Tensor>> values;
  std::string name;
  DIPTYCH_FIELDS(values, name)
};

// h [2], sum [2], x [3,2], more [3], w [2]
Tensors structure_inputs() {
  return {leaf64({2}), leaf64({2}, 0.1), leaf64({3, 2}, 0.3), leaf64({3}, 0.5), leaf64({2}, 0.7)};
}

State initial(const Tensors& t) {
  return {t[0], {{"a", t[1]}, {"b", torch::zeros({}, torch::kLong)}}, torch::zeros({}, torch::kLong), {t[1] * 2, 7}};
}

std::pair<State, Given> step(const State& state, const Slice& slice, const at::Tensor& w) {
  EXPECT_FALSE(slice.absent.has_value());
  EXPECT_EQ(std::get<1>(state.rest), 7);
  State next = state;
  next.h = torch::tanh(state.h * w + slice.x * slice.more[0]);
  next.sums.at("a") = state.sums.at("a") + next.h;
  next.sums.at("b") = state.sums.at("b") + 2;
  next.count = *state.count + 1;
  return {next, {{next.h * 2, std::nullopt}, "kept"}};
}

Tensors leaves_of(const State& state) {
  return {state.h, state.sums.at("a"), state.sums.at("b"), *state.count, std::get<0>(state.rest)};
}

Tensors scanned_structures(const Tensors& t) {
  const auto [last, given] = scan([&](const State& c, const Slice& x) { return step(c, x, t[4]); }, initial(t),
                                  Slice{t[2], {t[3]}, std::nullopt});
  EXPECT_EQ(given.name, "kept");
  EXPECT_FALSE(given.values.second.has_value());
  return joined(leaves_of(last), {given.values.first});
}

Tensors written_out_structures(const Tensors& t) {
  State state = initial(t);
  Tensors rows;
  for (int64_t i = 0; i < 3; ++i) {
    const auto [next, given] = step(state, {t[2][i], {t[3][i]}, std::nullopt}, t[4]);
    state = next;
    rows.push_back(given.values.first);
  }
  Tensors found = joined(leaves_of(state), {torch::stack(rows)});
  found[4] = found[4].clone();  // it goes through the loop as it is; an operator's results are its own
  return found;
}

const CheckOptions kStructuresClose{.tolerance = 1e-12};

TEST(Structures, Scan) {
  expect_alike({structure_inputs}, written_out_structures, scanned_structures, kStructuresClose);
  expect_compiled_as({structure_inputs}, written_out_structures, scanned_structures, kStructuresClose);
}

Tensors looped(const Tensors& t) {
  const auto body = [&](const State& state) {
    const at::Tensor i = state.count->reshape({1});
    return step(state, {t[2].index_select(0, i)[0], {t[3].index_select(0, i)[0]}, std::nullopt}, t[4]).first;
  };
  return leaves_of(while_loop([](const State& state) { return *state.count < 3; }, body, initial(t)));
}

TEST(Structures, WhileLoop) {
  const auto carries = [](const Tensors& t) {
    Tensors all = written_out_structures(t);
    all.pop_back();
    return all;
  };
  expect_alike({structure_inputs}, carries, looped, kStructuresClose);
  expect_compiled_as({structure_inputs}, carries, looped, kStructuresClose);
}

Tensors chosen(const Tensors& t) {
  const auto branch = [&](double factor) {
    return [&t, factor](const State& state, const Slice& slice) { return step(state, slice, t[4] * factor).first; };
  };
  const Slice slice{t[2][0], {t[3][0]}, std::nullopt};
  return leaves_of(cond(t[0].sum() > 0, branch(1), branch(2), initial(t), slice));
}

Tensors chosen_in_eager(const Tensors& t) {
  const double factor = t[0].sum().item<double>() > 0 ? 1 : 2;
  Tensors found = leaves_of(step(initial(t), {t[2][0], {t[3][0]}, std::nullopt}, t[4] * factor).first);
  found[4] = found[4].clone();
  return found;
}

TEST(Structures, Cond) {
  expect_alike({structure_inputs}, chosen_in_eager, chosen, kStructuresClose);
  expect_compiled_as({structure_inputs}, chosen_in_eager, chosen, kStructuresClose);
}

TEST(Structures, Map) {
  const auto mapped = [](const Tensors& t) -> Tensors {
    const auto found = map(
        [&](const Slice& x) {
          return Given{{x.x * t[4], x.more[0].sin()}, "kept"};
        },
        Slice{t[2], {t[3]}, std::nullopt});
    EXPECT_EQ(found.name, "kept");
    return {found.values.first, *found.values.second};
  };
  const auto expected = [](const Tensors& t) -> Tensors { return {t[2] * t[4], t[3].sin()}; };
  expect_alike({structure_inputs}, expected, mapped, kStructuresClose);
  expect_compiled_as({structure_inputs}, expected, mapped, kStructuresClose);
}

// A condition that captures what the body changes.
TEST(WhileLoop, TheConditionSeesABufferThatTheBodyChanges) {
  const auto run = [](const at::Tensor& x, const at::Tensor& buffer) {
    return while_loop([&](const at::Tensor&) { return buffer < 3; },
                      [&](const at::Tensor& c) {
                        const torch::NoGradGuard guard;
                        at::Tensor(buffer).add_(1);
                        return c * 2;
                      },
                      x);
  };
  const at::Tensor buffer = torch::zeros({});
  EXPECT_TRUE(at::equal(run(torch::ones({2}), buffer), torch::full({2}, 8.0F)));
  EXPECT_EQ(buffer.item<float>(), 3);
  const auto compiled = aot_function(run);
  const at::Tensor other = torch::ones({});
  EXPECT_TRUE(at::equal(compiled(torch::ones({2}), other), torch::full({2}, 4.0F)));
  EXPECT_EQ(other.item<float>(), 3);
}

}  // namespace
}  // namespace diptych::testing
