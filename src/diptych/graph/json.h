// Graphs as JSON values; serialize.cpp puts them into texts and files.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "diptych/graph/parse.h"

namespace diptych {

/// Parses a text whose numbers are all whole ones of 64 bits: the library makes such of others where it is asked for
/// one, whatever their range. Errors: nlohmann's for what is no JSON; UserError names `what` for another number.
nlohmann::json parse_whole_numbers(std::string_view text, std::string_view what);

/// Turns graphs into JSON. Operators and constants are collected over all graphs of one file.
class JsonWriter {
 public:
  nlohmann::json write(const Graph& graph);
  /// Each operator's name with its schema.
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

}  // namespace diptych
