#include "diptych/distributed/gradient_reduction.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include "diptych/base/check.h"

namespace diptych::distributed {
namespace {

at::Tensor call(const char* name, torch::jit::Stack stack) {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(&stack);
  return stack[0].toTensor();
}

at::Tensor all_reduce(const at::Tensor& tensor, const std::string& group) {
  return call("_c10d_functional::all_reduce", {tensor, "sum", group});
}

at::Tensor wait(const at::Tensor& tensor) { return call("_c10d_functional::wait_tensor", {tensor}); }

std::vector<at::Tensor> checked(std::vector<at::Tensor> parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    DIPTYCH_CHECK(parameters[i].defined() && parameters[i].layout() == at::kStrided,
                  "[distributed] parameter {} of a GradientReduction is {}, expected a dense tensor", i,
                  parameters[i].defined() ? "sparse" : "undefined");
  }
  return parameters;
}

}  // namespace

GradientReduction::GradientReduction(const Process& process, std::vector<at::Tensor> parameters,
                                     const BucketOptions& options)
    : size_(process.size()),
      group_(Process::group_name()),
      parameters_(checked(std::move(parameters))),
      buckets_(assign_buckets(parameters_, options)),
      bucket_of_(parameters_.size()) {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (const size_t i : buckets_[b].members) bucket_of_[i] = b;
  }
  key_ = fmt::format("mean over {} processes of group {}, buckets {}", size_, group_, describe(buckets_, parameters_));
  process.check_same("the parameters of a GradientReduction, or its buckets", key_);
  begin();
}

void GradientReduction::begin() {
  gradients_.assign(parameters_.size(), at::Tensor());
  travelling_.clear();
  missing_.clear();
  for (const Bucket& bucket : buckets_) missing_.push_back(bucket.members.size());
}

void GradientReduction::is_ready(size_t index, const at::Tensor& gradient) {
  DIPTYCH_CHECK(gradient.layout() == at::kStrided,
                "[distributed] the gradient of parameter {} is sparse, which buckets can't hold; make it dense (an "
                "embedding without sparse=true)",
                index);
  gradients_.at(index) = gradient;
  --missing_[bucket_of_[index]];
  issue_full();
}

// Issues full buckets in their order, so that all processes issue the same ones whatever became known first.
void GradientReduction::issue_full() {
  while (travelling_.size() < buckets_.size() && missing_[travelling_.size()] == 0) issue(buckets_[travelling_.size()]);
}

void GradientReduction::issue(const Bucket& bucket) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> pieces;
  pieces.reserve(bucket.members.size());
  for (const size_t i : bucket.members) pieces.push_back(piece(i));
  // Gradients are divided before they are summed: the sum over many processes would overflow a half sooner.
  const at::Tensor flat = pieces.size() == 1 ? pieces[0] : at::cat(pieces);
  travelling_.push_back(all_reduce(flat.div(size_), group_));
}

at::Tensor GradientReduction::piece(size_t index) const {
  const at::Tensor& gradient = gradients_[index];
  return gradient.defined() ? gradient.reshape({-1})
                            : at::zeros({parameters_[index].numel()}, parameters_[index].options());
}

// Lays a gradient out like its parameter, as autograd does.
at::Tensor GradientReduction::laid_out(size_t index, const at::Tensor& piece) const {
  const at::Tensor& parameter = parameters_[index];
  at::Tensor gradient = piece.view(parameter.sizes());
  if (parameter.is_contiguous() || !parameter.is_non_overlapping_and_dense()) return gradient;
  return at::empty_strided(parameter.sizes(), parameter.strides(), gradient.options()).copy_(gradient);
}

std::vector<at::Tensor> GradientReduction::finish(std::vector<at::Tensor> gradients) {
  const at::NoGradGuard no_grad;
  DIPTYCH_CHECK(gradients.size() == parameters_.size(),
                "[distributed] a GradientReduction of {} parameters got {} gradients; construct it with the "
                "optimizer's parameters, in the optimizer's order",
                parameters_.size(), gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined() && !gradients_[i].defined()) is_ready(i, gradients[i]);
  }
  while (travelling_.size() < buckets_.size()) issue(buckets_[travelling_.size()]);
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const at::Tensor flat = wait(travelling_[b]);
    int64_t begin = 0;
    for (const size_t i : buckets_[b].members) {
      const int64_t count = parameters_[i].numel();
      if (parameters_[i].requires_grad()) gradients[i] = laid_out(i, flat.narrow(0, begin, count));
      begin += count;
    }
  }
  begin();
  return gradients;
}

}  // namespace diptych::distributed
