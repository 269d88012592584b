#include "diptych/scan_passes/regroup_scan_sums.h"

#include <algorithm>

#include "diptych/ops/tags.h"
#include "diptych/scan_passes/body_flow.h"

namespace diptych::detail {
namespace {

/// Regroups the sums of one body.
class Regrouper {
 public:
  explicit Regrouper(ScanEdit& edit) : edit_(edit), body_(edit.body()), flow_(edit), is_output_(body_.num_values()) {
    for (const Value output : body_.outputs()) is_output_[output.id] = true;
  }

  bool run() {
    for (size_t i = 0; i < body_.nodes().size(); ++i) {
      if (is_whole_sum(i) && is_scattered(i)) roots_.push_back(i);
    }
    if (roots_.empty()) return false;
    Rewriter rewriter(body_);
    rewriter.copy_inputs();
    for (size_t i = 0; i < body_.nodes().size(); ++i) {
      if (std::find(roots_.begin(), roots_.end(), i) == roots_.end()) {
        rewriter.copy_node(body_.nodes()[i]);
      } else {
        rewriter.map(body_.nodes()[i].outputs[0], write(rewriter, i));
      }
    }
    edit_.set_body(rewriter.finish());
    edit_.map_all(edit_.write());
    return true;
  }

 private:
  struct Sum {
    std::vector<Value> terms;
    size_t late_additions = 0;  ///< additions in the loop of terms that are known before it
  };

  bool is_private(Value value) const { return flow_.readers(value).size() == 1 && !is_output_[value.id]; }
  // Whether a node is an addition that is part of the sum `whole`: only another addition of that sum reads its result.
  bool is_part(size_t index, const Node& whole) const {
    const Node& node = body_.nodes()[index];
    return is_plain_addition(node) && is_private(node.outputs[0]) && node.grad_enabled == whole.grad_enabled;
  }
  // The addition of a carry that is a running sum stays as it is: sink_from_scans looks for that form.
  bool is_running_sum(const Node& node) const {
    return std::any_of(edit_.carries.begin(), edit_.carries.end(), [&](const auto& carry) {
      return carry.out == node.outputs[0] &&
             (std::get<Value>(node.operands[0]) == carry.in || std::get<Value>(node.operands[1]) == carry.in);
    });
  }
  bool is_whole_sum(size_t index) const {
    const Node& node = body_.nodes()[index];
    if (!is_plain_addition(node) || !flow_.is_sequential(node.outputs[0]) || is_running_sum(node)) return false;
    if (!is_private(node.outputs[0])) return true;
    const Node& reader = body_.nodes()[flow_.readers(node.outputs[0])[0]];
    return !is_plain_addition(reader) || is_running_sum(reader) || reader.grad_enabled != node.grad_enabled;
  }

  void collect(size_t index, const Node& whole, Sum& sum) const {
    const Node& node = body_.nodes()[index];
    const bool is_late = flow_.is_sequential(node.outputs[0]);
    for (const size_t i : {0, 1}) {
      const Value operand = std::get<Value>(node.operands[i]);
      sum.late_additions += is_late && !flow_.is_sequential(operand) ? 1 : 0;
      const int32_t producer = flow_.producer(operand);
      if (producer >= 0 && is_part(producer, whole)) {
        collect(producer, whole, sum);
      } else {
        sum.terms.push_back(operand);
      }
    }
  }

  Sum sum_of(size_t index) const {
    Sum sum;
    collect(index, body_.nodes()[index], sum);
    return sum;
  }

  // Whether the loop adds more than one term that is known before it. The terms must be contiguous and have the sum's
  // dtype, since the layout of a sum follows those of its terms.
  bool is_scattered(size_t index) const {
    const Sum sum = sum_of(index);
    const TensorMeta& whole = body_.meta(body_.nodes()[index].outputs[0]);
    return sum.late_additions > 1 && std::all_of(sum.terms.begin(), sum.terms.end(), [&](Value term) {
             const TensorMeta& meta = body_.meta(term);
             return meta.dtype == whole.dtype && meta.strides == contiguous_strides(meta.sizes);
           });
  }

  // is_product(): a matrix product that nothing else reads; is_bias(): a row that is added to each of its rows.
  bool is_product(Value value) const {
    const Node* producer = body_.producer(value);
    return producer != nullptr && has_tag(producer->op, Tag::kMatrixProduct) && is_private(value);
  }
  bool is_bias(Value value, Value product) const {
    const auto& sizes = body_.meta(value).sizes;
    return sizes.size() == 1 && sizes[0] == body_.meta(product).sizes[1];
  }

  Value write(Rewriter& rewriter, size_t index) const {
    Node like = body_.nodes()[index];
    like.provenance.grad_of = {};
    Emitter emitter(rewriter.graph(), like, InternedString("regroup_scan_sums"));
    std::vector<Value> terms = sum_of(index).terms;
    std::stable_partition(terms.begin(), terms.end(), [&](Value term) { return !flow_.is_sequential(term); });
    Value sum;
    const auto product = std::find_if(terms.begin(), terms.end(),
                                      [&](Value term) { return !flow_.is_sequential(term) && is_product(term); });
    const auto bias = std::find_if(terms.begin(), terms.end(), [&](Value term) {
      return product != terms.end() && !flow_.is_sequential(term) && is_bias(term, *product);
    });
    if (bias != terms.end()) {
      const Node& mm = *body_.producer(*product);
      sum = emitter.call("aten.addmm", {rewriter[*bias], rewriter[std::get<Value>(mm.operands[0])],
                                        rewriter[std::get<Value>(mm.operands[1])]});
      *product = *bias = Value{};
    }
    for (const Value term : terms) {
      if (!term) continue;
      sum = sum ? emitter.call("aten.add.Tensor", {sum, rewriter[term]}) : rewriter[term];
    }
    return sum;
  }

  ScanEdit& edit_;
  const Graph& body_;
  BodyFlow flow_;
  std::vector<bool> is_output_;
  std::vector<size_t> roots_;
};

}  // namespace

Graph regroup_scan_sums(const Graph& graph) {
  return detail::rewrite_scans(graph, "regroup_scan_sums", [](ScanEdit& edit) { return Regrouper(edit).run(); });
}

}  // namespace diptych::detail
