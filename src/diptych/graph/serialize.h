// Graphs in files: readable JSON, with the constants' bytes behind it, under one checksum.
//
// A file starts with the line `diptych-graphs <version> <json bytes> <constant bytes> <checksum>`; then come the JSON
// and the constants. Operators are saved with their schemas: a LibTorch that changed an operator refuses the file
// rather than reading its operands as something else.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diptych/graph/parse.h"

namespace diptych {

/// Files of this version are written; those from kOldestGraphFileVersion on are read, as the changelog says. Version 2
/// added checkpoint regions and names of residuals; version 3 names the operands of higher-order operators;
/// version 4 marks nodes with a derivative of their own.
inline constexpr int kGraphFileVersion = 4;
inline constexpr int kOldestGraphFileVersion = 1;

/// What a file holds: graphs by name in order, and strings of the program that saved it.
struct GraphFile {
  std::vector<std::pair<std::string, Graph>> graphs;
  std::map<std::string, std::string> metadata;

  /// The graph called `name`. Errors: UserError lists the names.
  const Graph& graph(std::string_view name) const;
};

/// One graph as JSON, without the bytes of its constants; from_json() takes all_constants(graph).
/// Errors: UserError for a graph that holds something that JSON cannot (a generator).
std::string to_json(const Graph& graph);
/// The inverse. Errors: UserError for text that is not a graph, is damaged, is of an unknown version or names an
/// operator that this LibTorch does not have or defines differently.
Graph from_json(std::string_view json, const std::vector<at::Tensor>& constants = {}, FindHop find_hop = nullptr);

/// Writes a file whole or not at all: to `<path>.tmp-...`, which then takes the place of `path`.
/// Errors: UserError as to_json, and with the system's reason where the file can't be written.
void save(const GraphFile& file, const std::string& path);
void save(const Graph& graph, const std::string& path);

namespace detail {
/// The parts of a file, in order.
struct FileParts {
  std::string first_line, text, constants;
};
/// Returns what save() writes. Errors: as save(), except for those of the system.
FileParts file_parts(const GraphFile& file);
}  // namespace detail

/// Reads a file; load(save(g)) is identical to g.
/// Errors: UserError as from_json, and for a file that is missing, foreign, cut short or damaged.
GraphFile load(const std::string& path, FindHop find_hop = nullptr);

}  // namespace diptych
