#include "diptych/scan_passes/hoist_from_scans.h"

#include <algorithm>
#include <map>

#include "diptych/base/check.h"
#include "diptych/ops/batching.h"
#include "diptych/ops/tags.h"
#include "diptych/scan_passes/body_flow.h"

namespace diptych::detail {
namespace {

// Matrix products may make this many times the scan's slices and stacks before they are left where they are.
constexpr int64_t kMaxGrowth = 4;

/// Note [What is hoisted]
/// A node that reads only operands that are the same in every step moves out as it is. A node that reads slices becomes
/// one operator on the stacks if ops/batching.h has a rule for it. Among the latter, products with a fixed matrix are
/// worth it (one large product instead of T small ones), views cost nothing, and a node that makes less than it reads
/// saves memory. An elementwise operator at the end of the hoisted nodes makes a stack of its own, which is written and
/// read once more in memory instead of caches; that saves one call of an operator per step, which pays for small slices
/// only. An elementwise operator that feeds a hoisted product or reduction moves along with it.
class HoistPlan {
 public:
  HoistPlan(const ScanEdit& edit, const detail::HoistOptions& options) : edit_(edit), body_(edit.body()), flow_(edit) {
    for (const auto& node : body_.nodes()) {
      moved_.push_back((!options.only_fixed || !flow_.varies(node)) && may_move(node));
    }
    while (keep_one()) {
    }
  }

  bool any() const { return std::find(moved_.begin(), moved_.end(), true) != moved_.end(); }
  bool is_moved(size_t node) const { return moved_[node]; }
  bool varies(Value value) const { return flow_.varies(value); }

  /// Moved values that the body still reads or returns, in order.
  std::vector<Value> wanted() const {
    std::vector<bool> is_wanted(body_.num_values());
    const auto want = [&](Value value) {
      const int32_t producer = flow_.producer(value);
      is_wanted[value.id] = is_wanted[value.id] || (producer >= 0 && moved_[producer]);
    };
    for (size_t i = 0; i < moved_.size(); ++i) {
      if (!moved_[i]) for_each_operand_value(body_.nodes()[i], want);
    }
    for (const Value output : body_.outputs()) want(output);
    std::vector<Value> values;
    for (size_t i = 0; i < is_wanted.size(); ++i) {
      if (is_wanted[i]) values.push_back({static_cast<int32_t>(i)});
    }
    return values;
  }

 private:
  bool may_move(const Node& node) const {
    if (!is_movable(body_, node)) return false;
    bool is_ready = true;
    for_each_operand_value(node, [&](Value value) {
      const int32_t producer = flow_.producer(value);
      const bool is_known = producer < 0 ? !flow_.is_sequential(value) : static_cast<bool>(moved_[producer]);
      is_ready = is_ready && is_known;
    });
    if (!is_ready || !flow_.varies(node)) return is_ready;
    return can_batch(
        body_, node, [&](Value value) { return flow_.varies(value); }, edit_.attributes.length);
  }

  // Keeps the last node that is not worth moving in the body, if there is one; the nodes that it reads are judged by
  // the new plan.
  bool keep_one() {
    for (size_t i = moved_.size(); i-- > 0;) {
      if (!moved_[i] || is_worth(i)) continue;
      keep(i);
      return true;
    }
    return false;
  }
  // Keeps a node in the body, together with the moved nodes that read it: they are views, or it would have been worth
  // moving.
  void keep(size_t index) {
    moved_[index] = false;
    for (const Value output : body_.nodes()[index].outputs) {
      if (!output) continue;
      for (const size_t reader : flow_.readers(output)) {
        if (moved_[reader]) keep(reader);
      }
    }
  }

  // Whether more than views is computed from a node's results before the loop.
  bool feeds_moved(const Node& node) const {
    return std::any_of(node.outputs.begin(), node.outputs.end(), [&](Value output) {
      if (!output) return false;
      const auto& readers = flow_.readers(output);
      return std::any_of(readers.begin(), readers.end(), [&](size_t reader) {
        const Node& next = body_.nodes()[reader];
        return moved_[reader] && (!has_tag(next.op, Tag::kSharesStorage) || feeds_moved(next));
      });
    });
  }

  bool is_worth(size_t index) const {
    const Node& node = body_.nodes()[index];
    if (!flow_.varies(node)) return true;
    if (has_tag(node.op, Tag::kSharesStorage) || feeds_moved(node)) return true;
    int64_t made = 0;
    for (const Value output : node.outputs) made += output ? flow_.bytes(output) : 0;
    if (flow_.is_product_with_fixed(node)) return made <= kMaxGrowth * flow_.step_bytes();
    int64_t read = 0;
    for_each_operand_value(node, [&](Value value) { read += flow_.varies(value) ? flow_.bytes(value) : 0; });
    return made <= detail::kSmallSliceBytes || 2 * made <= read;
  }

  const ScanEdit& edit_;
  const Graph& body_;
  BodyFlow flow_;
  std::vector<bool> moved_;
};

// Whether a value that has the sizes of `meta` is laid out as it is, as far as elements have neighbours.
bool has_layout_of(const TensorMeta& value, const TensorMeta& meta) {
  for (size_t dim = 0; dim < meta.sizes.size(); ++dim) {
    if (meta.sizes[dim].hint() > 1 && value.strides[dim].hint() != meta.strides[dim].hint()) return false;
  }
  return true;
}

/// Writes the nodes that leave the body in front of the scan.
class Hoister {
 public:
  Hoister(ScanEdit& edit, const HoistPlan& plan) : edit_(edit), body_(edit.body()), plan_(plan) {
    for (const auto& slice : edit.slices) known_[slice.in.id] = {slice.outer, true};
    for (const auto& operand : edit.free) known_[operand.in.id] = {operand.outer, false};
  }

  void run() {
    for (size_t i = 0; i < body_.nodes().size(); ++i) {
      if (plan_.is_moved(i)) write(body_.nodes()[i]);
    }
    size_t count = 0;
    for (const Value value : plan_.wanted()) {
      const Slot slot{SlotKind::kArgument, fmt::format("hoisted.{}", count++)};
      (plan_.varies(value) ? edit_.slices : edit_.free).push_back({known_.at(value.id).value, value, slot});
    }
    edit_.map_all(edit_.write());
  }

 private:
  BatchedValue find(Value value) {
    const auto [entry, is_new] = known_.try_emplace(value.id);
    if (is_new) {
      const auto& info = body_.info(value);
      DIPTYCH_ASSERT(info.kind == ValueInfo::Kind::kConstant, "%{} is hoisted before its operands", value.id);
      entry->second = {edit_.outer().graph().add_constant(body_.constants()[info.index]), false};
    }
    return entry->second;
  }

  // A body lays out what it is given as in its capture, where its views are legal; what reads it in front of the scan
  // must find it so, too.
  void lay_out(Value in, const Node& reader) {
    const TensorMeta& meta = body_.meta(in);
    if (body_.info(in).kind != ValueInfo::Kind::kInput || !meta.is_static()) return;
    if (!is_dense(meta.size_hints(), meta.stride_hints())) return;
    BatchedValue& known = known_.at(in.id);
    const TensorMeta wanted = known.is_stacked ? stacked(meta, edit_.attributes.length) : meta;
    Emitter emitter = edit_.emitter(reader);
    if (!has_layout_of(emitter.meta(known.value), wanted)) known.value = emitter.with_strides(known.value, wanted);
  }

  void write(const Node& node) {
    bool varies = false;
    for_each_operand_value(node, [&](Value value) {
      varies = varies || plan_.varies(value);
      lay_out(value, node);
    });
    const auto outputs =
        varies ? batch(node) : edit_.copy_outside(node, [&](Value value) { return find(value).value; });
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (node.outputs[i]) known_[node.outputs[i].id] = {outputs[i], varies};
    }
  }

  std::vector<Value> batch(const Node& node) {
    auto emitter = edit_.emitter(node);
    auto outputs = batch_node(
        emitter, body_, node, [&](Value value) { return find(value); }, edit_.attributes.length);
    DIPTYCH_ASSERT(outputs.has_value(), "{} was planned to run before its scan but has no rule", node.op.name());
    return std::move(*outputs);
  }

  ScanEdit& edit_;
  const Graph& body_;
  const HoistPlan& plan_;
  std::map<int32_t, BatchedValue> known_;
};

}  // namespace

// A loop without steps computes nothing, and operators might refuse what hoisting would compute.
bool hoist(ScanEdit& edit, const HoistOptions& options) {
  if (edit.attributes.length == 0) return false;
  const HoistPlan plan(edit, options);
  if (!plan.any()) return false;
  Hoister(edit, plan).run();
  return true;
}

Graph hoist_from_scans(const Graph& graph) {
  return detail::rewrite_scans(graph, "hoist_from_scans", [](ScanEdit& edit) { return detail::hoist(edit, {}); });
}

}  // namespace diptych::detail
