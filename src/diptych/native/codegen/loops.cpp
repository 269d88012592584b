#include "diptych/native/codegen/loops.h"

#include <utility>

#include "diptych/native/codegen/aligned_begin.h"

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

namespace {

void write_either(LlvmWriter& writer, PointCode& point, const std::string& condition, const std::function<void()>& body,
                  const std::function<void()>& other) {
  const std::string inside = writer.fresh_block("then"), outside = writer.fresh_block("else");
  const std::string after = writer.fresh_block("after");
  writer.line("br i1 {}, label %{}, label %{}", condition, inside, outside);
  for (const auto& [block, write] : {std::pair(inside, &body), std::pair(outside, &other)}) {
    writer.block(block);
    const size_t mark = point.mark();
    (*write)();
    point.forget(mark);
    writer.line("br label %{}", after);
  }
  writer.block(after);
}

class VectorLoopWriter {
 public:
  VectorLoopWriter(LlvmWriter& writer, PointCode& point, const VectorLoop& loop, const std::function<void()>& body)
      : writer_(writer), point_(point), loop_(loop), body_(body) {}

  void write() {
    if (loop_.nontemporal.empty()) {
      const std::string end = whole_end(loop_.begin);
      write_whole(loop_.begin, end);
      if (!loop_.is_whole) write_part(end, loop_.end);
    } else {
      write_with_nontemporal();
    }
  }

 private:
  // Where whole vectors end.
  std::string whole_end(const std::string& begin) {
    const std::string length = writer_.value("sub i64 {}, {}", loop_.end, begin);
    const std::string rounded = writer_.value("and i64 {}, {}", length, -static_cast<int64_t>(loop_.lanes));
    return writer_.value("add i64 {}, {}", begin, rounded);
  }

  void at(const std::string& index, const std::string& mask) {
    point_.set_index(loop_.dim, index);
    point_.begin_vector(loop_.dim, loop_.lanes, mask);
    body_();
    point_.end_vector();
  }

  void write_whole(const std::string& begin, const std::string& end) {
    write_loop(writer_, point_, begin, end, loop_.lanes, [&](const std::string& index) { at(index, ""); });
  }

  // The points of less than a vector.
  void write_part(const std::string& begin, const std::string& end) {
    const std::string has_points = writer_.value("icmp slt i64 {}, {}", begin, end);
    write_if(writer_, point_, has_points, [&] {
      // LLVM 19 drops a mask that is a constant and another one if half of the constant is false and the vector takes
      // two registers (AVX2): the load then reads what it must not. So the number of lanes is none that it knows.
      const std::string known = writer_.value("sub i64 {}, {}", end, begin);
      const std::string left = writer_.value("trunc i64 {} to i32", writer_.value("add i64 {}, %zero", known));
      const std::string lefts = writer_.splat("i32", left, loop_.lanes);
      const std::string numbers = LlvmWriter::lane_numbers("i32", loop_.lanes);
      at(begin, writer_.value("icmp ult <{} x i32> {}, {}", loop_.lanes, numbers, lefts));
    });
  }

  void write_with_nontemporal() {
    const bool shifts = loop_.can_shift && !loop_.is_whole;
    point_.set_index(loop_.dim, loop_.begin);
    const auto [points, exists] = write_aligned_begin(writer_, point_, loop_.nontemporal, loop_.lanes);
    const std::string is_wanted = writer_.value("icmp ne i64 %nontemporal, 0");
    const std::string may = writer_.value("and i1 {}, {}", is_wanted, exists);
    const std::string is_here = shifts ? "true" : writer_.value("icmp eq i64 {}, 0", points);
    const std::string is_nontemporal = writer_.value("and i1 {}, {}", may, is_here);
    const std::string begin = shifts ? shifted_begin(is_nontemporal, points) : loop_.begin;
    const std::string end = whole_end(begin);
    const auto nontemporal = [&] {
      point_.set_nontemporal(true);
      write_whole(begin, end);
      point_.set_nontemporal(false);
    };
    write_either(writer_, point_, is_nontemporal, nontemporal, [&] { write_whole(begin, end); });
    if (loop_.is_whole) return;
    if (!shifts) return write_part(end, loop_.end);
    // Both ends are written once, as a loop of two turns.
    write_loop(writer_, point_, "0", "2", 1, [&](const std::string& turn) {
      const std::string is_first = writer_.value("icmp eq i64 {}, 0", turn);
      const std::string from = writer_.value("select i1 {}, i64 {}, i64 {}", is_first, loop_.begin, end);
      write_part(from, writer_.value("select i1 {}, i64 {}, i64 {}", is_first, begin, loop_.end));
    });
  }

  std::string shifted_begin(const std::string& is_shifted, const std::string& points) {
    const std::string by = writer_.value("select i1 {}, i64 {}, i64 0", is_shifted, points);
    const std::string begin = writer_.value("add i64 {}, {}", loop_.begin, by);
    const std::string is_beyond = writer_.value("icmp sgt i64 {}, {}", begin, loop_.end);
    return writer_.value("select i1 {}, i64 {}, i64 {}", is_beyond, loop_.end, begin);
  }

  LlvmWriter& writer_;
  PointCode& point_;
  const VectorLoop& loop_;
  const std::function<void()>& body_;
};

}  // namespace

void write_vector_loop(LlvmWriter& writer, PointCode& point, const VectorLoop& loop,
                       const std::function<void()>& body) {
  VectorLoopWriter(writer, point, loop, body).write();
}

}  // namespace diptych::detail
