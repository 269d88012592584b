// Graphs as JSON values; serialize.cpp puts them into texts and files.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "diptych/graph/parse.h"

namespace diptych::detail {

/// Parses JSON in which every number must be a 64-bit integer: the library would convert any other number to an integer
/// on request, without a range check. Errors: nlohmann's exception for text that is not JSON; UserError names `what`
/// for any other number.
nlohmann::json parse_whole_numbers(std::string_view text, std::string_view what);

/// Turns graphs into JSON. Operators and constants are collected over all graphs of one file.
class JsonWriter {
 public:
  nlohmann::json write(const Graph& graph);
  /// The schema of each ATen operator that occurs, by its name.
  const std::map<std::string, std::string>& operators() const { return operators_; }
  /// The constants, in the order of the numbers by which graphs refer to them.
  const std::vector<at::Tensor>& constants() const { return constants_; }

 private:
  nlohmann::json write_node(const Graph& graph, const Node& node);

  std::map<std::string, std::string> operators_;
  std::vector<at::Tensor> constants_;
};

/// Turns JSON back into graphs. Errors: UserError, and nlohmann's exceptions where the structure is not as written.
class JsonReader {
 public:
  JsonReader(const nlohmann::json& operators, const std::vector<at::Tensor>& constants, FindHop find_hop);
  Graph read(const nlohmann::json& json, int depth = 0);

 private:
  Op find_op(const std::string& name) const;

  std::map<std::string, Op> operators_;
  const std::vector<at::Tensor>& constants_;
  FindHop find_hop_;
};

/// The metadata of a value: {"dtype": "f32", "sizes": ["2", "s0"], "strides": [...], "device": "cpu"}.
nlohmann::json write_meta(const TensorMeta& meta);
TensorMeta read_meta(const nlohmann::json& json, const std::map<std::string, int64_t>& symbols);

}  // namespace diptych::detail
