#include "diptych/pair/stablehlo_manifest.h"

#include <map>
#include <nlohmann/json.hpp>

#include "diptych/base/check.h"
#include "diptych/compile/check_slots.h"
#include "diptych/graph/names.h"

namespace diptych::detail {
namespace {

using Json = nlohmann::ordered_json;

std::string constant_name(const char* graph, size_t index) { return fmt::format("{}.{}", graph, index); }

Json entry_of(size_t index, std::string_view kind, const std::string& path) {
  return {{"index", index}, {"kind", kind}, {"path", path}};
}

void add_type(Json& entry, at::ScalarType dtype, const std::vector<int64_t>& sizes) {
  entry["dtype"] = dtype_text(static_cast<int64_t>(dtype));
  entry["sizes"] = sizes;
}

// By output slot: its place among the results of `main`, which leaves empty slots out.
std::vector<std::optional<size_t>> result_places(const Graph& graph) {
  std::vector<std::optional<size_t>> places;
  size_t next = 0;
  for (const Value value : graph.outputs()) places.push_back(value ? std::optional(next++) : std::nullopt);
  return places;
}

Json place_or_null(const std::optional<size_t>& place) { return place ? Json(*place) : Json(nullptr); }

Json parameters_of(const Graph& graph, const char* name, const StableHloModule& module) {
  Json list = Json::array();
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Slot& slot = graph.input_slots()[i];
    const TensorMeta& meta = graph.meta(graph.inputs()[i]);
    Json entry = entry_of(i, slot_kind_name(slot.kind), slot.path);
    add_type(entry, meta.dtype, meta.size_hints());
    list.push_back(std::move(entry));
  }
  for (size_t i = 0; i < module.constants.size(); ++i) {
    const std::string path = constant_name(name, i);
    Json entry = entry_of(graph.inputs().size() + i, "constant", path);
    add_type(entry, module.constants[i].scalar_type(), module.constants[i].sizes().vec());
    entry["file"] = "constants.safetensors";
    entry["tensor"] = path;
    list.push_back(std::move(entry));
  }
  return list;
}

Json results_of(const Graph& graph) {
  Json list = Json::array();
  const auto places = result_places(graph);
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Slot& slot = graph.output_slots()[i];
    Json entry = entry_of(0, slot_kind_name(slot.kind), slot.path);
    entry["index"] = place_or_null(places[i]);
    if (const Value value = graph.outputs()[i]) {
      add_type(entry, graph.meta(value).dtype, graph.meta(value).size_hints());
    }
    list.push_back(std::move(entry));
  }
  return list;
}

// Says of a forward output that it is an input or another output, or shares memory with it.
void add_alias(Json& entry, const OutputAlias& alias, const std::vector<std::optional<size_t>>& places) {
  using Kind = OutputAlias::Kind;
  const bool is_input = alias.kind == Kind::kIsInput || alias.kind == Kind::kViewOfInput;
  const bool is_view = alias.kind == Kind::kViewOfInput || alias.kind == Kind::kViewOfOutput;
  entry["alias"] = {
      {is_input ? "parameter" : "result", is_input ? Json(alias.target) : place_or_null(places[alias.target])},
      {"is_view", is_view}};
}

Json forward_of(const Pair& pair, const StableHloModule& module, const ExportedTensors& tensors) {
  Json parameters = parameters_of(pair.forward, "forward", module), results = results_of(pair.forward);
  for (size_t i = 0; i < tensors.names.size(); ++i) {
    if (tensors.names[i].empty()) continue;
    parameters[i]["file"] = "parameters.safetensors";
    parameters[i]["tensor"] = tensors.names[i];
  }
  const auto places = result_places(pair.forward);
  for (const OutputAlias& alias : pair.signature.aliases()) add_alias(results[alias.output], alias, places);
  for (Json& result : results) {
    if (result["kind"] == "mutated")
      result["new_value_of"] = pair.signature.index_of_input(std::string(result["path"]));
  }
  return {{"module", "forward.mlir"}, {"parameters", std::move(parameters)}, {"results", std::move(results)}};
}

// Residuals are the last results of the forward; tangents belong to differentiable outputs, gradients to inputs.
Json backward_of(const Pair& pair, const StableHloModule& module) {
  Json parameters = parameters_of(pair.backward, "backward", module), results = results_of(pair.backward);
  const auto places = result_places(pair.forward);
  const auto tangents = pair.signature.differentiable_outputs();
  const size_t num_residuals = pair.backward.inputs().size() - tangents.size();
  for (size_t i = 0; i < pair.backward.inputs().size(); ++i) {
    const size_t output = i < num_residuals ? places.size() - num_residuals + i : tangents[i - num_residuals];
    parameters[i]["forward_result"] = place_or_null(places[output]);
  }
  for (size_t i = 0; i < results.size(); ++i) results[i]["gradient_of"] = i;
  return {{"module", "backward.mlir"}, {"parameters", std::move(parameters)}, {"results", std::move(results)}};
}

std::string without_argument(const std::string& path) {
  const auto dot = path.find('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

// Returns the name of the parameter for each input slot of the forward graph.
std::vector<std::string> names_of(const Pair& pair, const NamedTensors& parameters) {
  std::vector<std::string> names;
  std::map<std::string, std::string> slot_by_name;
  const auto& inputs = pair.signature.forward_inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Slot& slot = inputs[i].slot;
    const std::string name = parameters.count(slot.path) > 0 ? slot.path : without_argument(slot.path);
    const auto found = parameters.find(name);
    names.push_back(found == parameters.end() ? "" : name);
    if (found == parameters.end()) continue;
    const auto [other, is_new] = slot_by_name.emplace(name, slot.path);
    DIPTYCH_CHECK(is_new,
                  "[export_stablehlo] the parameter '{}' fits the slots '{}' and '{}'; name parameters by their slots' "
                  "full paths",
                  name, other->second, slot.path);
    DIPTYCH_CHECK(found->second.defined(), "[export_stablehlo] the parameter '{}' is undefined; pass a tensor", name);
    check_fits("export_stablehlo", "the parameter for slot", i, {slot.kind, name}, found->second, *inputs[i].meta);
  }
  return names;
}

}  // namespace

ExportedTensors exported_tensors(const Pair& pair, const StableHloModule& forward, const StableHloModule& backward,
                                 const NamedTensors& parameters) {
  ExportedTensors tensors;
  tensors.parameters = parameters;
  const size_t num_arguments = pair.signature.num_arguments();
  for (size_t i = 0; i < pair.free_variables.size(); ++i) {
    tensors.parameters.emplace(pair.forward.input_slots()[num_arguments + i].path, pair.free_variables[i].detach());
  }
  tensors.names = names_of(pair, tensors.parameters);
  for (size_t i = 0; i < forward.constants.size(); ++i) {
    tensors.constants.emplace(constant_name("forward", i), forward.constants[i]);
  }
  for (size_t i = 0; i < backward.constants.size(); ++i) {
    tensors.constants.emplace(constant_name("backward", i), backward.constants[i]);
  }
  return tensors;
}

std::string stablehlo_manifest(const Pair& pair, const StableHloModule& forward, const StableHloModule& backward,
                               const ExportedTensors& tensors) {
  const Json manifest = {{"format", "diptych-stablehlo"},
                         {"version", kStableHloManifestVersion},
                         {"forward", forward_of(pair, forward, tensors)},
                         {"backward", backward_of(pair, backward)}};
  return manifest.dump(2) + "\n";
}

}  // namespace diptych::detail
