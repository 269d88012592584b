#include "diptych/backends/native/codegen/loops.h"

namespace diptych::detail {

void write_loop(LlvmWriter& writer, PointCode& point, const std::string& begin, const std::string& end, int64_t step,
                const std::function<void(const std::string&)>& body) {
  const std::string counter = writer.variable("i64");
  const std::string head = writer.fresh_block("head"), inside = writer.fresh_block("body");
  const std::string after = writer.fresh_block("after");
  writer.line("store i64 {}, ptr {}", begin, counter);
  writer.line("br label %{}", head);
  writer.block(head);
  const std::string index = writer.value("load i64, ptr {}", counter);
  const std::string is_inside = writer.value("icmp slt i64 {}, {}", index, end);
  writer.line("br i1 {}, label %{}, label %{}", is_inside, inside, after);
  writer.block(inside);
  const size_t mark = point.mark();
  body(index);
  point.forget(mark);
  writer.line("store i64 {}, ptr {}", writer.value("add nsw i64 {}, {}", index, step), counter);
  writer.line("br label %{}", head);
  writer.block(after);
}

void write_if(LlvmWriter& writer, PointCode& point, const std::string& condition, const std::function<void()>& body) {
  const std::string inside = writer.fresh_block("then"), after = writer.fresh_block("after");
  writer.line("br i1 {}, label %{}, label %{}", condition, inside, after);
  writer.block(inside);
  const size_t mark = point.mark();
  body();
  point.forget(mark);
  writer.line("br label %{}", after);
  writer.block(after);
}

std::string write_block_end(LlvmWriter& writer, const std::string& begin, int64_t block, const SizeTerm& extent,
                            const std::string& end) {
  const std::string next = writer.value("add i64 {}, {}", begin, block);
  if (extent.factor > 0 && is_multiple(extent, block)) return next;
  const std::string is_last = writer.value("icmp sgt i64 {}, {}", next, end);
  return writer.value("select i1 {}, i64 {}, i64 {}", is_last, end, next);
}

void write_vector_loop(LlvmWriter& writer, PointCode& point, int32_t dim, int lanes, const std::string& begin,
                       const std::string& end, bool is_whole, const std::function<void()>& body) {
  const auto at = [&](const std::string& index, const std::string& mask) {
    point.set_index(dim, index);
    point.begin_vector(dim, lanes, mask);
    body();
    point.end_vector();
  };
  const std::string length = writer.value("sub i64 {}, {}", end, begin);
  const std::string rounded = writer.value("and i64 {}, {}", length, -static_cast<int64_t>(lanes));
  const std::string whole_end = writer.value("add i64 {}, {}", begin, rounded);
  write_loop(writer, point, begin, whole_end, lanes, [&](const std::string& index) { at(index, ""); });
  if (is_whole) return;
  const std::string has_rest = writer.value("icmp slt i64 {}, {}", whole_end, end);
  write_if(writer, point, has_rest, [&] {
    // LLVM 19 drops a mask that is a constant and another one if half of the constant is false and the vector takes two
    // registers (AVX2): the load then reads what it must not. So the number of lanes is none that it knows.
    const std::string known = writer.value("sub i64 {}, {}", end, whole_end);
    const std::string left = writer.value("trunc i64 {} to i32", writer.value("add i64 {}, %zero", known));
    const std::string lefts = writer.splat("i32", left, lanes);
    const std::string numbers = LlvmWriter::lane_numbers("i32", lanes);
    at(whole_end, writer.value("icmp ult <{} x i32> {}, {}", lanes, numbers, lefts));
  });
}

}  // namespace diptych::detail
