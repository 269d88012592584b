// Schemas of higher-order operators, and attributes by name.
#include <gtest/gtest.h>

#include "diptych/base/error.h"
#include "diptych/graph/hop_attributes.h"
#include "diptych/graph/parse.h"

namespace diptych {
namespace {

const HopSchema& loop() {
  static const HopSchema schema(
      "loop(Tensor[] init, Tensor limit, int length, bool reverse, int[] fronts=[], str tag=\"a\")", {"step"});
  return schema;
}

std::string error_of(std::string_view declaration) {
  try {
    HopSchema(declaration, {});
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

TEST(HopSchema, KnowsGroupsAttributesAndBodies) {
  EXPECT_EQ(loop().name(), "loop");
  EXPECT_EQ(loop().num_groups(), 2u);
  EXPECT_EQ(loop().bodies(), std::vector<std::string>{"step"});
  EXPECT_EQ(loop().declaration(),
            "loop(Tensor[] init, Tensor limit, int length, bool reverse, int[] fronts=[], str tag=\"a\")");
  EXPECT_EQ(Op(&loop()).name(), "hop.loop");
  EXPECT_EQ(loop(), HopSchema(loop().declaration(), {"step"}));
  EXPECT_FALSE(loop() == HopSchema(loop().declaration(), {"body"}));
}

TEST(HopSchema, RefusesWhatANodeCanNotHold) {
  EXPECT_NE(error_of("loop").find("expected a name and arguments in parentheses"), std::string::npos);
  EXPECT_NE(error_of("loop(Tensor init,)").find("can't be read as a schema"), std::string::npos);
  EXPECT_NE(error_of("loop(Tensor? init)").find("'init' of hop.loop is Tensor?"), std::string::npos);
  EXPECT_NE(error_of("loop(int? length)").find("'length' of hop.loop is int?"), std::string::npos);
  EXPECT_NE(error_of("loop(Device device)").find("expected a group of tensors"), std::string::npos);
  EXPECT_NE(error_of("loop(int length, Tensor[] init)").find("put groups first"), std::string::npos);
}

TEST(HopSchema, AttributesAreReadByNameAndHaveDefaults) {
  const HopAttributes attributes(loop(), {{"reverse", true}, {"length", int64_t{7}}});
  EXPECT_EQ(attributes.integer("length"), 7);
  EXPECT_TRUE(attributes.flag("reverse"));
  EXPECT_TRUE(attributes.integers("fronts").empty());
  EXPECT_EQ(attributes.at("tag").toStringRef(), "a");
  EXPECT_FALSE(attributes.has("init"));
  EXPECT_THROW(attributes.at("limit"), InternalError);
  EXPECT_THROW(HopAttributes(loop(), {{"length", int64_t{7}}}), InternalError);              // reverse is missing
  EXPECT_THROW(HopAttributes(loop(), {{"length", 0.5}, {"reverse", true}}), InternalError);  // of another type
  EXPECT_THROW(HopAttributes(loop(), {{"length", int64_t{7}}, {"reverse", true}, {"banana", true}}), InternalError);
}

TEST(HopSchema, ANodeIsPrintedAndParsedByTheNamesOfItsOperands) {
  Graph graph("f");
  const Value x = graph.add_input(TensorMeta::of(at::ones({2})), {SlotKind::kArgument, "x"});
  auto body = std::make_shared<Graph>("body");
  Node node = make_hop_node(loop(), {{x, x}, {x}}, {loop(), {{"length", int64_t{7}}, {"reverse", false}}}, {body});
  EXPECT_EQ(group_of(node, "init"), (ValueList{x, x}));
  EXPECT_EQ(group_of(node, "limit"), ValueList{x});
  EXPECT_THROW(group_of(node, "length"), InternalError);
  node.returns = {-1};
  graph.add_node(std::move(node), {graph.meta(x)});
  graph.set_outputs({x}, {{SlotKind::kOutput, "y"}});
  const auto text = graph.code();
  EXPECT_NE(text.find("%1 : f32[2] = hop.loop(init=[%0, %0], limit=%0, length=7, reverse=false) {"), std::string::npos)
      << text;
  const Graph back = parse(text, {}, [](std::string_view) { return &loop(); });
  EXPECT_EQ(back.code(), text);
  EXPECT_EQ(HopAttributes::of(back.nodes()[0]).at("tag").toStringRef(), "a");
}

}  // namespace
}  // namespace diptych
