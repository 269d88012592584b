#include "samples/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "diptych/base/torch_version.h"
#include "samples/judge_shapes.h"
#include "testing/rotation.h"

namespace diptych::test {
namespace {

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// How many samples of an operator the families before one have.
const std::map<std::string, uint32_t>& samples_before(const std::string& family) {
  static const auto before = [] {
    std::map<std::string, std::map<std::string, uint32_t>> counts;
    std::map<std::string, uint32_t> met;
    for (const Family& each : families()) {
      counts[each.name] = met;
      for (const OpSample& sample : each.samples()) ++met[sample.op];
    }
    return counts;
  }();
  return before.at(family);
}

}  // namespace

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

std::vector<Family> families_of(const std::string& prefix) {
  std::vector<Family> found;
  std::copy_if(families().begin(), families().end(), std::back_inserter(found),
               [&](const Family& family) { return family.name.starts_with(prefix); });
  return found;
}

Walk::Walk() : renews_(*variable("DIPTYCH_RENEW_SAMPLES") != '\0'), left_(read_left_samples()) {}

bool Walk::is_wanted(const OpSample& sample, int number) const {
  const std::string wanted = variable("DIPTYCH_SAMPLE");
  if (!wanted.empty()) return wanted == sample.op || wanted == fmt::format("{} {}", sample.op, number);
  const auto& before = samples_before(GetParam().name);
  const auto found = before.find(sample.op);
  return renews_ || sample.is_fixed ||
         testing::takes_place((found == before.end() ? 0 : found->second) + static_cast<uint32_t>(number));
}

// Who takes a sample differs by version: the list is of torch 2.13. From 2.14 on bfloat16 and a complex number promote
// to bcomplex32, and from 2.15 on eager ignores bounds that a small integer can't go beyond.
bool depends_on_version(const OpSample& sample) {
  const auto is_of = [&](at::ScalarType dtype) {
    return sample.arguments[0].isTensor() && sample.arguments[0].toTensor().scalar_type() == dtype;
  };
  if (DIPTYCH_TORCH_AT_LEAST(2, 15) && sample.op == "aten.hardtanh") return is_of(at::kByte);
  const bool has_complex_number = std::any_of(sample.arguments.begin(), sample.arguments.end(),
                                              [](const c10::IValue& value) { return value.isComplexDouble(); });
  return DIPTYCH_TORCH_AT_LEAST(2, 14) && is_of(at::kBFloat16) && has_complex_number;
}

void Walk::note(const char* judge, const OpSample& sample, int number, bool takes, const std::string& where) {
  if (depends_on_version(sample)) return;
  Numbers& numbers = left_[GetParam().name][judge][sample.op];
  if (renews_ && !takes) numbers.insert(number);
  EXPECT_EQ(takes, numbers.count(number) == 0) << (takes ? "taken" : "not taken") << " by " << judge
                                               << ", which left_to_the_interpreter.txt has otherwise: " << where;
}

void Walk::judge(const OpSample& sample, int number) {
  const std::string& family = GetParam().name;
  const std::string name = fmt::format("{} {} ({}) of {}", sample.op, number, sample.note, family);
  SharedCall call;
  try {
    call = std::make_shared<SampledCall>(sample, family, number);
  } catch (const std::exception& error) {
    if (sample.may_be_refused) return note("eager", sample, number, false, name);
    ADD_FAILURE() << "eager refuses " << name << ": " << std::string(error.what()).substr(0, 300);
    return;
  }
  if (sample.may_be_refused) note("eager", sample, number, true, name);
  try {
    judge(call, number);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << "\nfor " << call->where();
  }
}

void Walk::judge(const SharedCall& call, int number) {
  const OpSample& sample = call->sample();
  const bool repeats = call->is_functional() && !call->is_random() && !sample.is_for_shapes;
  const bool takes_native = repeats && NativeJudge::takes(call), takes_xla = repeats && XlaJudge::takes(call);
  note("native", sample, number, takes_native, call->where());
  note("xla", sample, number, takes_xla, call->where());
  if (renews_) return;
  judge_by_shapes(*call);
  if (call->is_functional()) judge_by_interpreter(call);
  if (takes_native) native_.judge(call);
  if (takes_xla) xla_.judge(call);
}

void Walk::walk() {
  if (renews_) left_[GetParam().name].clear();
  std::map<std::string, int> numbers;
  for (const OpSample& sample : GetParam().samples()) {
    const int number = numbers[sample.op]++;
    if (is_wanted(sample, number)) judge(sample, number);
  }
  native_.finish();
  xla_.finish();
  if (renews_) write_left_samples(left_);
}

}  // namespace diptych::test
