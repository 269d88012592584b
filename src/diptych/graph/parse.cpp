#include "diptych/graph/parse.h"

#include <fmt/format.h>
#include <set>

#include "diptych/base/error.h"
#include "diptych/graph/bare_words.h"
#include "diptych/graph/names.h"
#include "diptych/graph/number_values.h"
#include "diptych/graph/parse_operand.h"
#include "diptych/graph/verify.h"

namespace diptych {

using namespace detail;
namespace {

constexpr int kMaxNesting = 32;

// Reads a graph's text into a NumberedGraph, which then numbers the values.
class GraphParser {
 public:
  GraphParser(TextCursor& cursor, const std::vector<at::Tensor>& constants, FindHop find_hop, size_t& num_constants,
              int depth)
      : cursor_(cursor), constants_(constants), find_hop_(find_hop), num_constants_(num_constants), depth_(depth) {
    scope_.is_defined = [this](int32_t number) { return defined_.count(number) > 0; };
  }

  Graph run() {
    const size_t start = cursor_.position();
    if (depth_ > kMaxNesting) cursor_.fail("at most 32 nested graphs");
    parse_header();
    while (!cursor_.accept("return")) parse_statement();
    parse_return();
    Graph graph = parsed_.build();
    if (const auto problem = find_problem(graph)) cursor_.fail_at(problem_position(*problem, start), problem->what);
    return graph;
  }

 private:
  size_t problem_position(const GraphProblem& problem, size_t start) const {
    return problem.node ? node_positions_.at(*problem.node) : start;
  }

  void define(int32_t number, size_t at) {
    if (!defined_.insert(number).second)
      cursor_.fail_at(at, fmt::format("%{} is defined twice; give each value its own number", number));
    if (!parsed_.define(number)) {
      cursor_.fail_at(
          at, fmt::format(
                  "%{} is defined after a value with a higher number; number values in the order of their definition",
                  number));
    }
  }

  void parse_header() {
    cursor_.expect("graph");
    parsed_.name = cursor_.word_or_string("the graph's name");
    cursor_.expect("(");
    // Symbols are declared after the inputs that use them: read them first.
    const size_t inputs = cursor_.position();
    skip_inputs();
    parse_symbols();
    const size_t body = cursor_.position();
    cursor_.set_position(inputs);
    if (!cursor_.accept(")")) {
      do {
        parse_input();
      } while (cursor_.accept(","));
      cursor_.expect(")");
    }
    cursor_.set_position(body);
  }

  void skip_inputs() {
    int depth = 1;
    while (depth > 0) {
      const char next = cursor_.peek();
      if (next == '\0') cursor_.fail("')' after the inputs");
      if (next == '"') {
        cursor_.string();
        continue;
      }
      depth += next == '(' ? 1 : next == ')' ? -1 : 0;
      cursor_.set_position(cursor_.position() + 1);
    }
  }

  void parse_symbols() {
    if (!cursor_.accept("where")) return;
    do {
      const std::string symbol(cursor_.name());
      if (symbol.empty()) cursor_.fail("a symbol such as s0=128");
      cursor_.expect("=");
      scope_.symbols[symbol] = cursor_.integer();
    } while (cursor_.accept(","));
  }

  void parse_input() {
    cursor_.peek();
    const size_t at = cursor_.position();
    const int32_t number = parse_value_number(cursor_);
    Slot slot;
    if (!cursor_.sees(":")) slot.path = cursor_.word_or_string("the input's name or ':'");
    cursor_.expect(":");
    TensorMeta meta = parse_meta(cursor_, scope_);
    if (!cursor_.sees(",") && !cursor_.sees(")")) slot.kind = parse_slot_kind();
    if (!defined_.insert(number).second)
      cursor_.fail_at(at, fmt::format("%{} is defined twice; give each value its own number", number));
    parsed_.add_input(number, std::move(meta), std::move(slot));
  }

  SlotKind parse_slot_kind() {
    cursor_.peek();
    const size_t start = cursor_.position();
    const auto kind = slot_kind_from_name(cursor_.name());
    if (!kind) {
      cursor_.set_position(start);
      cursor_.fail("',', ')' or a kind of slot: argument, free_variable, output, mutated, residual, tangent, gradient");
    }
    return *kind;
  }

  void parse_statement() {
    cursor_.peek();
    const size_t start = cursor_.position();
    ParsedNode node;
    if (cursor_.sees("%") || cursor_.sees("[") || cursor_.sees("_") || cursor_.sees("none")) parse_results(node);
    if (cursor_.accept("constant")) {
      parse_constant(node, start);
      return;
    }
    Op op = parse_op();
    node.node.emplace(Node{std::move(op), {}, {}, {node.returns.begin(), node.returns.end()}, {}, {}, true});
    parse_operands(*node.node);
    parse_subgraphs(*node.node);
    if (cursor_.accept_note()) parse_provenance(*node.node);
    if (!cursor_.at_line_end()) cursor_.fail("the end of the line, '#' or '//'");
    for_each_operand_value(*node.node, [&](Value value) {
      if (!node.positions.empty() && value.id > node.positions.front().first && defined_.count(value.id) > 0) {
        cursor_.fail_at(
            start,
            fmt::format("%{} uses %{}, which has a higher number; number values in the order of their definition",
                        node.positions.front().first, value.id));
      }
    });
    for (const auto& [number, at] : node.positions) define(number, at);
    node_positions_.push_back(start);
    parsed_.add_node(std::move(node));
  }

  void parse_results(ParsedNode& node) {
    do {
      if (cursor_.accept("_")) {
        node.returns.push_back(-2);
      } else if (cursor_.accept("[")) {
        const size_t before = node.numbers.size();
        if (!cursor_.accept("]")) {
          do {
            parse_result(node);
          } while (cursor_.accept(","));
          cursor_.expect("]");
        }
        node.returns.push_back(static_cast<int32_t>(node.numbers.size() - before));
      } else {
        parse_result(node);
        node.returns.push_back(-1);
      }
    } while (cursor_.accept(","));
    cursor_.expect("=");
  }

  void parse_result(ParsedNode& node) {
    if (cursor_.accept("none")) {
      node.numbers.push_back(-1);
      node.metas.emplace_back();
      return;
    }
    cursor_.peek();
    const size_t at = cursor_.position();
    node.numbers.push_back(parse_value_number(cursor_));
    node.positions.emplace_back(node.numbers.back(), at);
    cursor_.expect(":");
    node.metas.push_back(parse_meta(cursor_, scope_));
  }

  void parse_constant(ParsedNode& node, size_t start) {
    const int64_t index = cursor_.integer();
    if (node.numbers.size() != 1 || node.numbers[0] < 0 || node.returns[0] != -1)
      cursor_.fail_at(start, "a constant makes exactly one value");
    if (index != static_cast<int64_t>(num_constants_)) {
      cursor_.fail_at(
          start, fmt::format("got constant {}, expected constant {}; number constants in the order of the text", index,
                             num_constants_));
    }
    if (num_constants_ >= constants_.size()) {
      cursor_.fail_at(
          start, fmt::format("the text has constant {}, but {} tensors were given; pass all_constants() of the graph",
                             index, constants_.size()));
    }
    const at::Tensor& tensor = constants_[num_constants_++];
    const auto given = TensorMeta::of(tensor);
    const auto& written = *node.metas[0];
    if (given.dtype != written.dtype || given.size_hints() != written.size_hints()) {
      cursor_.fail_at(start,
                      fmt::format("constant {} was given as {}, expected {}; pass the tensors in the order of the text",
                                  index, type_string(given), type_string(written)));
    }
    define(node.numbers[0], start);
    parsed_.add_constant(node.numbers[0], tensor, written);
  }

  Op parse_op() {
    cursor_.peek();
    const size_t start = cursor_.position();
    const std::string name(cursor_.name());
    if (name.empty()) cursor_.fail("an operator such as aten.add.Tensor");
    if (!name.starts_with("hop.")) {
      try {
        return Op::find(name);
      } catch (const UserError& error) {
        cursor_.fail_at(start, error.what());
      }
    }
    const HopSchema* hop = find_hop_ == nullptr ? nullptr : find_hop_(std::string_view(name).substr(4));
    if (hop == nullptr)
      cursor_.fail_at(start, fmt::format("got the unknown higher-order operator '{}'; {}", name,
                                         find_hop_ ? "check its name" : "pass a find_hop function"));
    return Op(hop);
  }

  // Operands come in the schema's order; those with defaults may be left out, and any may be named.
  void parse_operands(Node& node) {
    cursor_.expect("(");
    const size_t count = node.op.schema().arguments().size();
    std::vector<std::optional<Operand>> given(count);
    size_t next = 0;
    bool named = false;
    if (!cursor_.sees(")")) {
      do {
        cursor_.peek();
        const size_t at = cursor_.position();
        const auto name = parse_argument_name();
        named = named || !name.empty();
        if (named && name.empty()) cursor_.fail_at(at, "got an unnamed operand after a named one; name it too");
        if (node.op.is_hop() && name.empty())
          cursor_.fail_at(
              at, fmt::format("got an unnamed operand, expected a named one, as in {}=...; the schema of {} is {}",
                              count == 0 ? "name" : node.op.schema().arguments()[0].name(), node.op.name(),
                              node.op.hop().declaration()));
        const size_t index = named ? argument_index(node.op, name, at) : next++;
        if (index >= count) cursor_.fail_at(at, fmt::format("{} takes {} operands, got more", node.op.name(), count));
        Operand operand = parse_operand(cursor_, operand_type(node.op, index), scope_);
        if (given[index])
          cursor_.fail_at(at, fmt::format("operand '{}' is given twice", node.op.schema().arguments()[index].name()));
        given[index] = std::move(operand);
      } while (cursor_.accept(","));
    }
    const size_t end = cursor_.position();
    cursor_.expect(")");
    fill_defaults(node, given, end);
  }

  std::string parse_argument_name() {
    const size_t start = cursor_.position();
    const std::string name(cursor_.name());
    if (!name.empty() && cursor_.accept("=")) return name;
    cursor_.set_position(start);
    return {};
  }

  size_t argument_index(const Op& op, const std::string& name, size_t at) const {
    const auto index = op.schema().argumentIndexWithName(name);
    if (!index)
      cursor_.fail_at(at,
                      fmt::format("{} has no operand '{}'; its schema is {}", op.name(), name, c10::str(op.schema())));
    return static_cast<size_t>(*index);
  }

  void fill_defaults(Node& node, std::vector<std::optional<Operand>>& given, size_t at) const {
    for (size_t i = 0; i < given.size(); ++i) {
      const auto& argument = node.op.schema().arguments()[i];
      auto operand = given[i] ? std::move(given[i]) : default_operand(argument);
      if (!operand)
        cursor_.fail_at(at, fmt::format("{} needs the operand '{}'; its schema is {}", node.op.name(), argument.name(),
                                        c10::str(node.op.schema())));
      node.operands.push_back(std::move(*operand));
    }
  }

  void parse_subgraphs(Node& node) {
    if (!node.op.is_hop() || cursor_.at_line_end() || !cursor_.accept("{")) return;
    while (!cursor_.accept("}")) {
      GraphParser inner(cursor_, constants_, find_hop_, num_constants_, depth_ + 1);
      node.subgraphs.push_back(std::make_shared<const Graph>(inner.run()));
    }
  }

  void parse_provenance(Node& node) {
    Provenance& from = node.provenance;
    bool has_phase = false;
    bool first = true;
    do {
      const bool is_string = cursor_.peek() == '"';
      const size_t at = cursor_.position();
      const auto word = cursor_.word_or_string(
          "a scope, 'grad of %3', 'forward', 'backward', 'by pass', 'own_derivative' or 'no_grad'");
      if (!is_string && word == "grad") {
        cursor_.expect("of");
        parsed_.grad_of.emplace_back(parsed_.num_nodes(), parse_value_number(cursor_), at);
        if (!has_phase) from.phase = Phase::kBackward;
      } else if (!is_string && (word == "forward" || word == "backward")) {
        from.phase = word == "forward" ? Phase::kForward : Phase::kBackward;
        has_phase = true;
      } else if (!is_string && word == "by") {
        from.origin = InternedString(cursor_.word_or_string("the name of a pass"));
      } else if (!is_string && word == "region") {
        parse_region(from);
      } else if (!is_string && word == "named") {
        from.residual_name = InternedString(cursor_.word_or_string("the name of a residual"));
      } else if (!is_string && word == "own_derivative") {
        from.own_derivative = true;
      } else if (!is_string && word == "no_grad") {
        node.grad_enabled = false;
      } else if (first) {
        from.scope = InternedString(word);
      } else {
        cursor_.fail_at(
            at,
            fmt::format("got '{}', expected 'grad of %3', 'forward', 'backward', "
                        "'region checkpoint.0', 'named x', 'by pass', 'own_derivative' or 'no_grad'; a remark starts "
                        "with //",
                        word));
      }
      first = false;
    } while (!cursor_.at_line_end() && cursor_.accept("·"));
  }

  void parse_region(Provenance& from) {
    from.region = InternedString(cursor_.word_or_string("the path of a region"));
    if (cursor_.at_line_end() || cursor_.sees("·")) return;
    const size_t at = cursor_.position();
    const auto word = cursor_.word_or_string("the marks of a region");
    const auto marks = RegionMarks::parse(word);
    if (!marks)
      cursor_.fail_at(at, fmt::format("got '{}', expected 'auto', 'save' or 'recompute' for each region on the path, "
                                      "as in 'recompute/save'",
                                      word));
    from.marks = *marks;
  }

  void parse_return() {
    cursor_.expect("(");
    if (!cursor_.accept(")")) {
      do {
        const Value value = parse_value(cursor_, scope_);
        Slot slot{SlotKind::kOutput, {}};
        if (!cursor_.sees(",") && !cursor_.sees(")")) {
          slot.path = cursor_.word_or_string("the output's name, ',' or ')'");
          if (!cursor_.sees(",") && !cursor_.sees(")")) slot.kind = parse_slot_kind();
        }
        parsed_.outputs.push_back(value.id);
        parsed_.output_slots.push_back(std::move(slot));
      } while (cursor_.accept(","));
      cursor_.expect(")");
    }
    for (const auto& [node, number, at] : parsed_.grad_of) {
      if (defined_.count(number) == 0)
        cursor_.fail_at(at, fmt::format("got 'grad of %{}', expected a value of this graph", number));
    }
  }

  TextCursor& cursor_;
  const std::vector<at::Tensor>& constants_;
  FindHop find_hop_;
  size_t& num_constants_;
  int depth_;
  OperandScope scope_;
  std::set<int32_t> defined_;
  std::vector<size_t> node_positions_;
  NumberedGraph parsed_;
};

}  // namespace

Graph parse(std::string_view text, const std::vector<at::Tensor>& constants, FindHop find_hop) {
  TextCursor cursor(text);
  size_t num_constants = 0;
  Graph graph = GraphParser(cursor, constants, find_hop, num_constants, 0).run();
  if (!cursor.at_end()) cursor.fail("the end of the text after 'return (...)'");
  return graph;
}

}  // namespace diptych
