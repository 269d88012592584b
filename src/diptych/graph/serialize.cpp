#include "diptych/graph/serialize.h"

#include <charconv>

#include "diptych/base/check.h"
#include "diptych/graph/checksum.h"
#include "diptych/graph/constants.h"
#include "diptych/graph/file.h"
#include "diptych/graph/json.h"

namespace diptych {

using namespace detail;
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "diptych-graphs";
constexpr std::string_view kFormat = "diptych-graph";

// Returns the text of a JSON value. Its strings must be valid UTF-8; names come from users and may not be.
std::string dump(const json& value) {
  try {
    return value.dump();
  } catch (const json::exception& error) {
    detail::throw_user_error(
        fmt::format("[graph file] a name, scope or metadata string is not valid UTF-8 ({}); rename it", error.what()));
  }
}

json parse_json(std::string_view text, std::string_view what) {
  try {
    return parse_whole_numbers(text, what);
  } catch (const json::exception& error) {
    detail::throw_user_error(fmt::format("[graph file] {} is not JSON ({}); save it again", what, error.what()));
  }
}

// Calls `read`, and turns its errors about missing or malformed entries into UserErrors; checksums make these rare, but
// JSON can be written by hand.
template <class Read>
auto structured(std::string_view what, Read&& read) {
  try {
    return read();
  } catch (const json::exception& error) {
    detail::throw_user_error(fmt::format(
        "[graph file] {} lacks a field or has one of the wrong type ({}); save it again", what, error.what()));
  } catch (const c10::Error& error) {
    detail::throw_user_error(fmt::format("[graph file] {} holds something that this LibTorch refuses: {}", what,
                                         error.what_without_backtrace()));
  }
}

void check_version(int64_t version, std::string_view what) {
  DIPTYCH_CHECK(version <= kGraphFileVersion,
                "[graph file] {} has format version {}, but this Diptych reads {} to {}; load it with the newer "
                "Diptych that saved it",
                what, version, kOldestGraphFileVersion, kGraphFileVersion);
  DIPTYCH_CHECK(version >= kOldestGraphFileVersion,
                "[graph file] {} has format version {}, but this Diptych reads {} to {}; capture again", what, version,
                kOldestGraphFileVersion, kGraphFileVersion);
}

std::string hex(uint64_t number) { return fmt::format("{:016x}", number); }

}  // namespace

const Graph& GraphFile::graph(std::string_view name) const {
  std::string known;
  for (const auto& [graph_name, graph] : graphs) {
    if (graph_name == name) return graph;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", graph_name);
  }
  detail::throw_user_error(
      fmt::format("[GraphFile::graph] got '{}', expected one of {}", name, known.empty() ? "none" : known));
}

std::string to_json(const Graph& graph) {
  JsonWriter writer;
  const json body = writer.write(graph);
  const json content{{"graph", body}, {"operators", writer.operators()}};
  return dump({{"format", kFormat},
               {"version", kGraphFileVersion},
               {"checksum", hex(checksum(dump(content)))},
               {"content", content}});
}

Graph from_json(std::string_view text, const std::vector<at::Tensor>& constants, FindHop find_hop) {
  const json document = parse_json(text, "the text");
  return structured("the text", [&] {
    const bool is_ours = document.is_object() && document.value("format", json()) == json(kFormat);
    DIPTYCH_CHECK(is_ours, "[from_json] got JSON that is not a graph, expected what to_json() returned");
    check_version(document.at("version").get<int64_t>(), "the text");
    const json& content = document.at("content");
    DIPTYCH_CHECK(
        document.at("checksum").get<std::string>() == hex(checksum(dump(content))),
        "[from_json] the text has changed since to_json() returned it (its checksum does not match); make it again");
    return JsonReader(content.at("operators"), constants, find_hop).read(content.at("graph"));
  });
}

detail::FileParts detail::file_parts(const GraphFile& file) {
  JsonWriter writer;
  json graphs = json::array();
  for (const auto& [name, graph] : file.graphs) graphs.push_back({{"name", name}, {"graph", writer.write(graph)}});
  std::string constants;
  const json table = write_constants(writer.constants(), constants);
  const std::string text =
      dump({{"metadata", file.metadata}, {"graphs", graphs}, {"operators", writer.operators()}, {"constants", table}});
  const auto sizes = fmt::format("{} {} {}", kGraphFileVersion, text.size(), constants.size());
  const auto sum = checksum(constants, checksum(text, checksum(sizes)));
  return {fmt::format("{} {} {}\n", kMagic, sizes, hex(sum)), text, std::move(constants)};
}

void save(const GraphFile& file, const std::string& path) {
  const auto parts = detail::file_parts(file);
  write_file_atomically(path, {parts.first_line, parts.text, parts.constants});
}

void save(const Graph& graph, const std::string& path) { save(GraphFile{{{graph.name(), graph}}, {}}, path); }

namespace {

struct Sections {
  std::string_view text;
  std::string_view constants;
};

// Takes one word of the header line.
std::string_view next_word(std::string_view& line) {
  const auto end = line.find(' ');
  const auto word = line.substr(0, end);
  line = end == line.npos ? std::string_view() : line.substr(end + 1);
  return word;
}

std::optional<int64_t> number_of(std::string_view word) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < 0) return std::nullopt;
  return number;
}

// Checks everything about a file that can be checked before its content is parsed.
Sections open_sections(std::string_view bytes, const std::string& path) {
  const auto line_end = bytes.substr(0, 200).find('\n');
  std::string_view line = bytes.substr(0, line_end);
  DIPTYCH_CHECK(next_word(line) == kMagic,
                "[load] '{}' is not a graph file (it does not start with '{}'); pass a file that save() wrote", path,
                kMagic);
  DIPTYCH_CHECK(line_end != bytes.npos, "[load] '{}' was cut short in its first line; save it again", path);
  const auto sizes = line.substr(0, line.rfind(' '));
  const auto version = number_of(next_word(line));
  DIPTYCH_CHECK(version.has_value(), "[load] '{}' has a damaged first line; save it again", path);
  check_version(*version, fmt::format("'{}'", path));
  const auto text_size = number_of(next_word(line)), constants_size = number_of(next_word(line));
  DIPTYCH_CHECK(text_size && constants_size, "[load] '{}' has a damaged first line; save it again", path);
  const auto body = bytes.substr(line_end + 1);
  const auto have = static_cast<int64_t>(body.size());
  const bool fits = *text_size <= have && *constants_size == have - *text_size;
  DIPTYCH_CHECK(fits,
                "[load] '{}' has {} bytes after its first line, which announces {} + {}; the file was cut short or has "
                "grown, save it again",
                path, have, *text_size, *constants_size);
  const Sections sections{body.substr(0, *text_size), body.substr(*text_size)};
  const auto sum = checksum(sections.constants, checksum(sections.text, checksum(sizes)));
  DIPTYCH_CHECK(line == hex(sum), "[load] '{}' is damaged (its checksum does not match); save it again", path);
  return sections;
}

}  // namespace

GraphFile load(const std::string& path, FindHop find_hop) {
  const std::string bytes = read_file(path);
  const Sections sections = open_sections(bytes, path);
  const auto what = fmt::format("'{}'", path);
  const json document = parse_json(sections.text, what);
  return structured(what, [&] {
    const auto constants = read_constants(document.at("constants"), sections.constants);
    JsonReader reader(document.at("operators"), constants, find_hop);
    GraphFile file;
    file.metadata = document.at("metadata").get<std::map<std::string, std::string>>();
    for (const auto& entry : document.at("graphs")) {
      file.graphs.emplace_back(entry.at("name").get<std::string>(), reader.read(entry.at("graph")));
    }
    return file;
  });
}

}  // namespace diptych
