#include "diptych/tree/signature.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <ostream>

#include "diptych/base/check.h"
#include "diptych/graph/names.h"

namespace diptych {

using namespace detail;
namespace {

std::vector<SlotInfo> read_slots(const Graph& graph, const std::vector<Value>& values, const std::vector<Slot>& slots) {
  DIPTYCH_ASSERT(values.size() == slots.size(), "graph '{}' has {} values and {} slots", graph.name(), values.size(),
                 slots.size());
  std::vector<SlotInfo> infos;
  infos.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    std::optional<TensorMeta> meta;
    if (values[i]) meta = graph.meta(values[i]);
    infos.push_back({slots[i], std::move(meta)});
  }
  return infos;
}

/// Number of single-letter edits that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// How much a path differs from the one that was asked for; a path that ends with the asked name is nearest.
size_t unlikeness(std::string_view path, std::string_view asked) {
  const bool is_tail =
      path.size() > asked.size() && path.ends_with(asked) && path[path.size() - asked.size() - 1] == '.';
  return is_tail && !asked.empty() ? 0 : edit_distance(path, asked);
}

/// "The nearest are: 'params.w', 'params.b'.", with up to three paths.
std::string nearest_text(std::vector<std::string> paths, std::string_view asked) {
  if (paths.empty()) return "There are none.";
  std::stable_sort(paths.begin(), paths.end(),
                   [&](const auto& a, const auto& b) { return unlikeness(a, asked) < unlikeness(b, asked); });
  paths.resize(std::min<size_t>(paths.size(), 3));
  std::string text;
  for (const auto& path : paths) text += fmt::format("{}'{}'", text.empty() ? "" : ", ", path);
  return "The nearest are: " + text + ".";
}

std::optional<size_t> find_path(const std::vector<SlotInfo>& slots, std::string_view path) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].slot.path == path) return i;
  }
  return std::nullopt;
}

std::string type_text(const SlotInfo& info) { return info.meta ? type_string(*info.meta) : "none"; }

/// One section of the table; `note(i)` is printed after slot i.
template <class Note>
void print_section(std::string& text, std::string_view title, const std::vector<SlotInfo>& slots, Note&& note) {
  text += fmt::format("{} ({})\n", title, slots.size());
  size_t path_width = 0;
  size_t type_width = 0;
  for (const auto& info : slots) {
    path_width = std::max(path_width, info.slot.path.size());
    type_width = std::max(type_width, type_text(info).size());
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    std::string line = fmt::format("  {:>4}  {:<13}  {:<{}}  {:<{}}  {}", i, slot_kind_name(slots[i].slot.kind),
                                   slots[i].slot.path, path_width, type_text(slots[i]), type_width, note(i));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
}

std::optional<std::string> list_mismatch(std::string_view list, const std::vector<SlotInfo>& expected,
                                         const std::vector<SlotInfo>& got) {
  for (size_t i = 0; i < std::min(expected.size(), got.size()); ++i) {
    const SlotInfo& a = expected[i];
    const SlotInfo& b = got[i];
    const auto where = fmt::format("{} {} '{}'", list, i, b.slot.path);
    if (a.slot.kind != b.slot.kind || a.slot.path != b.slot.path) {
      return fmt::format("{}: expected the {} '{}', got the {} '{}'", where, slot_kind_name(a.slot.kind), a.slot.path,
                         slot_kind_name(b.slot.kind), b.slot.path);
    }
    if (a.meta == b.meta) continue;
    if (type_text(a) != type_text(b)) return fmt::format("{}: expected {}, got {}", where, type_text(a), type_text(b));
    if (a.meta->device != b.meta->device) {
      return fmt::format("{}: expected it on {}, got {}", where, a.meta->device.str(), b.meta->device.str());
    }
    return fmt::format("{}: expected requires_grad={}, got {}", where, a.meta->requires_grad, b.meta->requires_grad);
  }
  if (expected.size() == got.size()) return std::nullopt;
  const auto& longer = expected.size() > got.size() ? expected : got;
  const size_t first = std::min(expected.size(), got.size());
  return fmt::format("{}s: expected {}, got {}; {} '{}' is {}", list, expected.size(), got.size(),
                     slot_kind_name(longer[first].slot.kind), longer[first].slot.path,
                     expected.size() > got.size() ? "missing" : "new");
}

}  // namespace

Signature::Signature(const Graph& forward, std::vector<OutputAlias> aliases)
    : forward_inputs_(read_slots(forward, forward.inputs(), forward.input_slots())),
      forward_outputs_(read_slots(forward, forward.outputs(), forward.output_slots())),
      aliases_(std::move(aliases)) {
  check_forward();
}

Signature::Signature(const Graph& forward, const Graph& backward, std::vector<OutputAlias> aliases)
    : Signature(forward, std::move(aliases)) {
  backward_inputs_ = read_slots(backward, backward.inputs(), backward.input_slots());
  backward_outputs_ = read_slots(backward, backward.outputs(), backward.output_slots());
  check_pair();
}

void Signature::check_forward() const {
  for (size_t i = 0; i < num_outputs(); ++i) {
    DIPTYCH_ASSERT(forward_outputs_[i].slot.kind == SlotKind::kOutput, "forward output {} '{}' comes before an output",
                   i, forward_outputs_[i].slot.path);
  }
  for (const auto& path : mutated()) {
    DIPTYCH_ASSERT(find_path(forward_inputs_, path), "mutated '{}' does not belong to a forward input", path);
  }
  for (const auto& alias : aliases_) {
    const bool of_input = alias.kind == OutputAlias::Kind::kIsInput || alias.kind == OutputAlias::Kind::kViewOfInput;
    const size_t limit = of_input ? forward_inputs_.size() : alias.output;
    DIPTYCH_ASSERT(alias.output < num_outputs() && alias.target < limit, "output {} can't alias {} {}", alias.output,
                   of_input ? "input" : "output", alias.target);
  }
}

void Signature::check_pair() const {
  const auto made = residuals();
  const auto wanted = paths(backward_inputs_, SlotKind::kResidual);
  DIPTYCH_ASSERT(made == wanted, "the forward graph makes the residuals [{}], the backward graph takes [{}]",
                 fmt::join(made, ", "), fmt::join(wanted, ", "));
  for (const auto& info : backward_outputs_) {
    DIPTYCH_ASSERT(find_path(forward_inputs_, info.slot.path), "gradient '{}' does not belong to a forward input",
                   info.slot.path);
  }
  const auto tangents = paths(backward_inputs_, SlotKind::kTangent);
  const size_t known = differentiable_outputs().size();
  DIPTYCH_ASSERT(known == tangents.size(), "tangent '{}' does not belong to a forward output, or is out of order",
                 tangents[known]);
}

size_t Signature::count(const std::vector<SlotInfo>& slots, SlotKind kind) {
  return static_cast<size_t>(
      std::count_if(slots.begin(), slots.end(), [&](const SlotInfo& info) { return info.slot.kind == kind; }));
}

std::vector<std::string> Signature::paths(const std::vector<SlotInfo>& slots, SlotKind kind) {
  std::vector<std::string> paths;
  for (const auto& info : slots) {
    if (info.slot.kind == kind) paths.push_back(info.slot.path);
  }
  return paths;
}

std::vector<size_t> Signature::differentiable_outputs() const {
  // Tangents are in the order of their outputs, so an output that has been passed is not considered again.
  const auto tangents = paths(backward_inputs_, SlotKind::kTangent);
  std::vector<size_t> indices;
  for (size_t i = 0; i < forward_outputs_.size() && indices.size() < tangents.size(); ++i) {
    const Slot& slot = forward_outputs_[i].slot;
    if (slot.kind != SlotKind::kResidual && slot.path == tangents[indices.size()]) indices.push_back(i);
  }
  return indices;
}

size_t Signature::index_of_input(std::string_view path) const {
  const auto index = find_path(forward_inputs_, path);
  if (!index) {
    std::vector<std::string> known;
    for (const auto& info : forward_inputs_) known.push_back(info.slot.path);
    DIPTYCH_CHECK(false, "[signature] got '{}', expected the path of an input. {}", path,
                  nearest_text(std::move(known), path));
  }
  return *index;
}

size_t Signature::index_of_output(std::string_view path) const {
  for (size_t i = 0; i < forward_outputs_.size(); ++i) {
    const Slot& slot = forward_outputs_[i].slot;
    if (slot.kind == SlotKind::kOutput && slot.path == path) return i;
  }
  detail::throw_user_error(fmt::format("[signature] got '{}', expected the path of an output. {}", path,
                                       nearest_text(paths(forward_outputs_, SlotKind::kOutput), path)));
}

size_t Signature::gradient_of(std::string_view path) const {
  const SlotInfo& input = forward_inputs_[index_of_input(path)];
  const auto index = find_path(backward_outputs_, path);
  DIPTYCH_CHECK(!backward_outputs_.empty() || !backward_inputs_.empty(),
                "[signature] got '{}', expected an input with a gradient, but nothing was differentiated; capture with "
                "an input that requires grad",
                path);
  DIPTYCH_CHECK(
      index.has_value(),
      "[signature] got '{}', expected an input with a gradient; it is {}, which {}. The inputs with gradients "
      "are those that are floating-point or complex and require grad.",
      path, type_text(input),
      input.meta && input.meta->requires_grad ? "got no gradient slot" : "does not require grad");
  return *index;
}

bool Signature::has_gradient(std::string_view path) const {
  return backward_outputs_[gradient_of(path)].meta.has_value();
}

std::optional<OutputAlias> Signature::alias_of(size_t output) const {
  DIPTYCH_CHECK(output < num_outputs(), "[signature] got output {}, expected one of the {} outputs.", output,
                num_outputs());
  for (const auto& alias : aliases_) {
    if (alias.output == output) return alias;
  }
  return std::nullopt;
}

std::string Signature::alias_text(size_t output) const {
  const auto alias = alias_of(output);
  if (!alias) return "";
  const bool is_whole = alias->kind == OutputAlias::Kind::kIsInput || alias->kind == OutputAlias::Kind::kIsOutput;
  const bool of_input = alias->kind == OutputAlias::Kind::kIsInput || alias->kind == OutputAlias::Kind::kViewOfInput;
  const auto target = of_input ? forward_inputs_[alias->target].slot.path : fmt::format("output {}", alias->target);
  return fmt::format("output {} is {}{}", output, is_whole ? "" : "a view of ", target);
}

std::string Signature::str() const {
  std::string text;
  const auto grad_note = [&](size_t i) {
    return std::string(forward_inputs_[i].meta && forward_inputs_[i].meta->requires_grad ? "requires grad" : "");
  };
  const auto output_note = [&](size_t i) {
    return forward_outputs_[i].slot.kind == SlotKind::kOutput ? alias_text(i) : std::string();
  };
  const auto no_note = [](size_t) { return ""; };
  print_section(text, "forward inputs", forward_inputs_, grad_note);
  print_section(text, "forward outputs", forward_outputs_, output_note);
  if (backward_inputs_.empty() && backward_outputs_.empty()) return text;
  print_section(text, "backward inputs", backward_inputs_, no_note);
  print_section(text, "backward outputs", backward_outputs_, no_note);
  return text;
}

std::ostream& operator<<(std::ostream& stream, const Signature& signature) { return stream << signature.str(); }

std::optional<std::string> mismatch(const Signature& expected, const Signature& got) {
  if (auto text = list_mismatch("forward input", expected.forward_inputs(), got.forward_inputs())) return text;
  if (auto text = list_mismatch("forward output", expected.forward_outputs(), got.forward_outputs())) return text;
  if (auto text = list_mismatch("backward input", expected.backward_inputs(), got.backward_inputs())) return text;
  if (auto text = list_mismatch("backward output", expected.backward_outputs(), got.backward_outputs())) return text;
  for (size_t i = 0; i < expected.num_outputs(); ++i) {
    const auto describe = [i](const Signature& signature) {
      const auto text = signature.alias_text(i);
      return text.empty() ? fmt::format("output {} aliases nothing", i) : text;
    };
    if (describe(expected) != describe(got)) {
      return fmt::format("aliases: expected that {}, got that {}", describe(expected), describe(got));
    }
  }
  return std::nullopt;
}

}  // namespace diptych
