// Random joint graphs with their gradients written out by hand, for tests of the partitioners.
#pragma once
#include <random>

#include "diptych/passes/partition.h"
#include "testing/graph_writer.h"

namespace diptych::testing {

/// A joint graph with the tensors to run it on.
struct JointCase {
  Joint joint;
  std::vector<at::Tensor> primals;
  std::vector<at::Tensor> tangents;

  /// The joint graph's own results from a given seed: forward outputs, then gradients.
  std::vector<at::Tensor> run() const {
    torch::manual_seed(0);
    auto inputs = primals;
    inputs.insert(inputs.end(), tangents.begin(), tangents.end());
    return run_graph(joint.graph, inputs);
  }
  /// The same through the two graphs of a split.
  std::vector<at::Tensor> run(const Split& split) const {
    torch::manual_seed(0);
    auto outputs = run_graph(split.forward, primals);
    std::vector<at::Tensor> inputs(outputs.begin() + joint.layout.num_forward_outputs(), outputs.end());
    outputs.resize(joint.layout.num_forward_outputs());
    inputs.insert(inputs.end(), tangents.begin(), tangents.end());
    for (auto& gradient : run_graph(split.backward, inputs)) outputs.push_back(gradient);
    return outputs;
  }
};

/// Writes random programs over square matrices and differentiates them as autograd would.
class RandomJoint {
 public:
  RandomJoint(uint64_t seed, int64_t size, int length) : random_(seed), size_(size), length_(length), writer_("joint") {
    torch::manual_seed(seed);
  }

  JointCase make() {
    for (int i = 0; i < 3; ++i) add_primal(/*requires_grad=*/i != 2);
    for (int i = 0; i < length_; ++i) add_forward_node();
    const std::vector<Value> outputs{values_.back(), values_[pick(values_.size())]};
    return differentiate(outputs);
  }

 private:
  using Pullback = std::function<void(Value gradient)>;

  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  Value pick_value() {
    const size_t recent = std::min<size_t>(values_.size(), 6);
    return pick(4) == 0 ? values_[pick(values_.size())] : values_[values_.size() - 1 - pick(recent)];
  }
  Value call(std::string_view name, std::vector<Operand> operands) { return writer_.call(name, std::move(operands)); }
  void accumulate(Value value, Value gradient) {
    auto& slot = gradients_[value.id];
    slot = slot ? call("aten.add.Tensor", {slot, gradient}) : gradient;
  }
  void add_primal(bool requires_grad) {
    auto tensor = torch::randn({size_, size_}) * 0.5;
    tensor.requires_grad_(requires_grad);
    values_.push_back(writer_.input(tensor));
  }
  void record(Value result, Pullback pullback) {
    values_.push_back(result);
    tape_.emplace_back(result, std::move(pullback));
  }

  void add_forward_node() {
    const Value a = pick_value();
    const Value b = pick_value();
    switch (pick(12)) {
      case 0:
        return record(call("aten.add.Tensor", {a, b}), [=, this](Value g) { accumulate(a, g), accumulate(b, g); });
      case 1:
        return add_product(a, b);
      case 2:
        return add_matrix_product(a, b);
      case 3:
        return add_by_output("aten.tanh", "aten.tanh_backward", a);
      case 4:
        return add_by_output("aten.sigmoid", "aten.sigmoid_backward", a);
      case 5:
        return add_sine(a);
      case 6:
        return record(call("aten.t", {a}), [=, this](Value g) { accumulate(a, call("aten.t", {g})); });
      case 7:
        return add_view(a);
      case 8:
        return add_dropout(a);
      case 9:
        return add_clamp(a);
      case 10:
        return add_softmax(a);
      default:
        return add_mean(a);
    }
  }
  void add_product(Value a, Value b) {
    record(call("aten.mul.Tensor", {a, b}), [=, this](Value g) {
      accumulate(a, call("aten.mul.Tensor", {g, b}));
      accumulate(b, call("aten.mul.Tensor", {g, a}));
    });
  }
  void add_matrix_product(Value a, Value b) {
    record(call("aten.mm", {a, b}), [=, this](Value g) {
      accumulate(a, call("aten.mm", {g, call("aten.t", {b})}));
      accumulate(b, call("aten.mm", {call("aten.t", {a}), g}));
    });
  }
  void add_by_output(const char* forward, const char* backward, Value a) {
    const Value y = call(forward, {a});
    record(y, [=, this](Value g) { accumulate(a, call(backward, {g, y})); });
  }
  void add_sine(Value a) {  // its derivative depends on no tangent
    record(call("aten.sin", {a}), [=, this](Value g) {
      accumulate(a, call("aten.mul.Tensor", {g, call("aten.cos", {a})}));
    });
  }
  void add_view(Value a) {
    const Value flat = call("aten._unsafe_view", {call("aten.clone", {a, c10::IValue(at::MemoryFormat::Contiguous)}),
                                                  ints({size_ * size_})});
    const Value scaled = call("aten.mul.Tensor", {flat, flat});
    record(call("aten.view", {scaled, ints({size_, size_})}), [=, this](Value g) {
      const Value inner = call("aten.reshape", {g, ints({size_ * size_})});
      const Value once = call("aten.mul.Tensor", {inner, flat});
      accumulate(a, call("aten.view", {call("aten.add.Tensor", {once, once}), ints({size_, size_})}));
    });
  }
  void add_dropout(Value a) {
    const auto results = writer_.call_all("aten.native_dropout", {a, c10::IValue(0.5), c10::IValue(true)});
    record(results[0], [=, this](Value g) {
      accumulate(a, call("aten.native_dropout_backward", {g, results[1], c10::IValue(2.0)}));
    });
  }
  void add_clamp(Value a) {  // autograd makes the mask from the input in the backward pass
    record(call("aten.clamp_min", {a, c10::IValue(0.1)}), [=, this](Value g) {
      const Value mask = call("aten.ge.Scalar", {a, c10::IValue(0.1)});
      accumulate(a, call("aten.mul.Tensor", {g, mask}));
    });
  }
  void add_softmax(Value a) {
    const Value y = call("aten._softmax", {a, c10::IValue(1), c10::IValue(false)});
    record(y, [=, this](Value g) {
      const auto dtype = c10::IValue(at::kFloat);
      accumulate(a, call("aten._softmax_backward_data", {g, y, c10::IValue(1), dtype}));
    });
  }
  void add_mean(Value a) {
    const Value mean = call("aten.mean.dim", {a, ints({1}), c10::IValue(true)});
    record(call("aten.sub.Tensor", {a, mean}), [=, this](Value g) {
      accumulate(a, call("aten.sub.Tensor", {g, call("aten.mean.dim", {g, ints({1}), c10::IValue(true)})}));
    });
  }

  JointCase differentiate(const std::vector<Value>& outputs) {
    JointCase result;
    result.primals = writer_.inputs();
    writer_.phase = Phase::kBackward;
    std::vector<Value> all = outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto tangent = torch::randn({size_, size_});
      result.tangents.push_back(tangent);
      const Value value = writer_.input(tangent, "tangents." + std::to_string(i), SlotKind::kTangent);
      accumulate(outputs[i], value);
    }
    for (size_t i = tape_.size(); i-- > 0;) {
      if (const Value gradient = gradients_[tape_[i].first.id]) tape_[i].second(gradient);
    }
    for (int i = 0; i < 3; ++i) all.push_back(i == 2 ? Value{} : gradients_[i]);
    result.joint.graph = writer_.finish(all);
    result.joint.layout = {3, 0, outputs.size(), outputs.size(), 0};
    return result;
  }

  std::mt19937_64 random_;
  int64_t size_;
  int length_;
  GraphWriter writer_;
  std::vector<Value> values_;
  std::vector<std::pair<Value, Pullback>> tape_;
  std::map<int32_t, Value> gradients_;
};

}  // namespace diptych::testing
